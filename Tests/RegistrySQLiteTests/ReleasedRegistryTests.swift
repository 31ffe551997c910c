import EventLoop
import RegistryMemory
import Testing
import Vocabulary

@testable import Registry
@testable import RegistrySQLite

@Suite("A registry that was released to another process")
struct ReleasedRegistryTests {
    private let scratch: Scratch

    init() throws {
        scratch = try Scratch()
    }

    private func opened() throws -> DeviceRegistry {
        try DeviceRegistry.start(
            path: scratch.file(), creating: false, limits: RegistryLimits(), options: StoreOptions(), observe: { _ in })
    }

    @Test(
        "a device in memory that was revoked before the other process answered is known as revoked",
        .timeLimit(.minutes(1)))
    func revokedBetween() throws {
        let old = try startRegistry(scratch, devices: 2)
        let worker = try TestWorker(old)
        let first = try worker.find(1)
        _ = try worker.find(2)
        let ends = try MessageChannel.pair()
        old.release(asking: ends.ours)

        let new = try opened()
        defer { new.stop() }
        _ = try TestWorker(new).perform(.revoke(first.id)).get()
        new.answer(on: ends.theirs)

        var isRevoked = false
        while !isRevoked {
            if case .found(let device) = try worker.look(Fixture.bindingKey(1)) {
                isRevoked = device.standing == .deviceRevoked
            }
        }
        #expect(try worker.find(2).standing == .active)
        old.stop()
    }

    @Test("a later revocation is received, and closes the device's connections", .timeLimit(.minutes(1)))
    func revokedLater() throws {
        let old = try startRegistry(scratch, devices: 1)
        let worker = try TestWorker(old)
        let device = try worker.find(1)
        let ends = try MessageChannel.pair()
        old.release(asking: ends.ours)
        let new = try opened()
        defer { new.stop() }
        new.answer(on: ends.theirs)
        // Answered by the new process, so it listens.
        var answered = false
        while !answered { if case .unknown = try worker.look(Fixture.bindingKey(7)) { answered = true } }
        _ = try worker.find(1)
        _ = try TestWorker(new).perform(.revoke(device.id)).get()
        #expect(worker.run(until: { worker.barred.contains(Fixture.bindingKey(1)) }))
        old.stop()
    }
}
