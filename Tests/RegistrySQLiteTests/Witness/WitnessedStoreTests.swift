import Chance
import Foundation
import Testing
import RegistryMemory
import Vocabulary

@testable import Registry
@testable import RegistrySQLite
@testable import RevocationJournal

@Suite("A rolled-back store file")
struct WitnessedStoreTests {
    private let file: WitnessedFile

    init() throws {
        file = try WitnessedFile()
    }

    private func isWentBack(_ notices: [WitnessNotice]) -> Bool {
        if case .wentBack(_, isEpochFresh: true)? = notices.first { notices.count == 1 } else { false }
    }

    /// How a copy is made of a store that has spent value 1.
    enum Copy: String, CaseIterable {
        case closed, running, runningWithoutLog
    }

    @Test(
        "no proof is accepted twice: earlier challenges are refused automatically",
        arguments: Copy.allCases)
    func counters(_ copy: Copy) throws {
        var store: RegistryStore? = try file.open()
        try store?.populate(1)
        #expect(store?.commit(1, 1) == .committed)
        let epoch = try #require(store?.identity.epoch)
        if copy == .closed { store = nil }
        if copy == .runningWithoutLog { try store?.checkpoint() }
        try file.keep("copy", withLog: copy != .runningWithoutLog)
        if copy == .closed { store = try file.open() }
        #expect(store?.commit(1, 2) == .committed)
        try store?.tickWitness()
        let spent = try #require(store?.entry(1, 2))
        store = nil
        #expect(file.heard() == [])
        try file.putBack("copy")
        store = try file.open()
        #expect(isWentBack(file.heard()))
        #expect(store?.identity.epoch != epoch)
        #expect(store?.commit([spent]) == [.epochChanged])
        // From here on it stays as it is.
        let renewed = store?.identity
        #expect(store?.commit(1, 3) == .committed)
        store = nil
        store = try file.open()
        #expect(store?.identity == renewed)
        #expect(file.heard() == [])
    }

    @Test("a rolled-back file is detected even if it was only opened since the copy")
    func opened() throws {
        try file.open().populate(1)
        try file.keep("copy")
        _ = try file.open()
        try file.putBack("copy")
        _ = try file.open()
        #expect(isWentBack(file.heard()))
    }

    @Test("revocations, ended bindings, barred subjects and restorations all survive")
    func revocations() throws {
        var store: RegistryStore? = try file.open()
        let ids = try #require(try store?.populate(4))
        _ = try store?.revoke(ids[3], at: 1_100)
        try file.keep("copy")
        _ = try store?.revoke(ids[0], at: 1_200)
        _ = try store?.endBinding(Fixture.bindingKey(2), at: 1_300)
        _ = try store?.revokeSubject(Fixture.subject(1), at: 1_400)
        _ = try store?.restore(ids[3], at: 1_500)
        _ = try store?.revoke(ids[2], at: 1_600)
        _ = try store?.restore(ids[2], at: 1_700)
        store = nil
        try file.putBack("copy")
        store = try file.open()
        #expect(isWentBack(file.heard()))
        #expect(try store?.show(.id(ids[0])).device.revokedAt == 1_200)
        #expect(store?.commit(1, 1) == .deviceRevoked)
        #expect(try store?.show(.id(ids[1])).bindings.map(\.endedAt) == [1_300])
        #expect(store?.commit(2, 1) == .bindingEnded)
        #expect(store?.commit(3, 1) == .committed)
        // Nothing is restored by itself: an operator does it again.
        #expect(store?.commit(4, 1) == .deviceRevoked)
        // One that outlives what is refused after a store has gone back.
        let token = SingleUse(id: Fixture.token(1).id, expiresAt: 4_000_000_000)
        let barred = store?.keyBinding(
            3, key: 9, nonce: 1, counter: 2, admission: .token(token, subject: Fixture.subject(1)))
        #expect(try store?.bindKey(try #require(barred), at: 1_800).refusal == .subjectRevoked)
        // The journal says the same as before, once more.
        store = nil
        #expect(try file.revocations.revoked == [Fixture.hardwareKey(1): 1_200, Fixture.hardwareKey(4): 1_100])
    }

    @Test("a phone registered and revoked since the copy is not admitted again, nor its mTLS key")
    func unknown() throws {
        var store: RegistryStore? = try file.open()
        try store?.populate(1)
        try file.keep("copy")
        let late = try #require(
            try store?.register(Fixture.identity(2), binding: Fixture.bindingKey(2), at: 1_100).device.id)
        _ = try store?.endBinding(Fixture.bindingKey(2), at: 1_150)
        _ = try store?.revoke(late, at: 1_200)
        store = nil
        try file.putBack("copy")
        store = try file.open()
        #expect(try store?.initialize(try #require(store?.initialization(2)), at: 1_300).refusal == .deviceRevoked)
        #expect(throws: StoreError.keyBound) {
            try store?.bind(Fixture.bindingKey(2), to: try #require(DeviceID(1)), at: 1_300)
        }
        #expect(try store?.register(Fixture.identity(2), binding: nil, at: 1_300).device.state == .revoked)
    }

    @Test("a replaced key ends with its overlap, though the copy does not know its successor")
    func rotation() throws {
        var store: RegistryStore? = try file.open()
        try store?.populate(2)
        try file.keep("copy")
        // The one's overlap is over, the other's lasts a year.
        for (number, overlap) in [(1, Int64(100)), (2, 366 * 86_400)] {
            let request = try #require(
                store?.keyBinding(number, key: 10 + number, nonce: number, counter: 1, overlap: overlap))
            let time = number == 1 ? 1_500 : Int64(Date().timeIntervalSince1970)
            #expect(try store?.bindKey(request.expiringLate, at: time).kind == .rotation)
        }
        store = nil
        try file.putBack("copy")
        store = try file.open()
        let first = try #require(try store?.show(.hardwareKey(Fixture.hardwareKey(1))).bindings.first)
        #expect(first.endedAt == 1_600)
        let second = try #require(try store?.show(.hardwareKey(Fixture.hardwareKey(2))).bindings.first)
        #expect(second.endedAt == nil)
        #expect(second.endsAt != nil)
    }

    @Test("the newer file is detected as well after the older one has run")
    func fork() throws {
        var store: RegistryStore? = try file.open()
        try store?.populate(1)
        try file.keep("older")
        for value: UInt32 in 1...50 { #expect(store?.commit(1, value) == .committed) }
        store = nil
        try file.keep("newer")
        try file.putBack("older")
        store = try file.open()
        let served = store?.identity
        #expect(store?.commit(1, 1) == .committed)
        store = nil
        _ = file.heard()
        try file.putBack("newer")
        store = try file.open()
        #expect(isWentBack(file.heard()))
        #expect(store?.identity.epoch != served?.epoch)
    }

    @Test("a file rolled back while the gateway reopens it is detected, too")
    func reopened() throws {
        let store = try file.open()
        let ids = try store.populate(2)
        try store.checkpoint()
        try file.keep("copy", withLog: false)
        #expect(store.commit(2, 1) == .committed)
        _ = try store.revoke(ids[0], at: 1_200)
        let before = store.identity
        store.abandon()
        try file.putBack("copy")
        try store.reopen()
        #expect(isWentBack(file.heard()))
        #expect(store.identity != before)
        #expect(store.commit(1, 1) == .deviceRevoked)
        #expect(store.commit(2, 1) == .replayed)
    }

    @Test("another registry in its place gets all journal entries and a fresh epoch")
    func imported() throws {
        var store: RegistryStore? = try file.open()
        let ids = try #require(try store?.populate(1))
        _ = try store?.revoke(ids[0], at: 1_200)
        store = nil
        for suffix in ["", "-wal"] { try? FileManager.default.removeItem(atPath: file.scratch.file() + suffix) }
        try RegistryStore(path: file.scratch.file(), creating: true).populate(1)
        let made = try RegistryStore(path: file.scratch.file(), creating: true).identity
        store = try file.open()
        #expect(isWentBack(file.heard()))
        #expect(store?.identity.epoch != made.epoch)
        #expect(store?.commit(1, 1) == .deviceRevoked)
    }

    @Test("a revocation whose mark was lost in a power cut is applied again")
    func markLost() throws {
        var store: RegistryStore? = try file.open()
        let ids = try #require(try store?.populate(1))
        try store?.checkpoint()
        try file.keep("copy")
        let mark = try Data(contentsOf: URL(filePath: file.markPath))
        _ = try store?.revoke(ids[0], at: 1_200)
        store = nil
        try mark.write(to: URL(filePath: file.markPath))
        try file.putBack("copy")
        store = try file.open()
        #expect(store?.commit(1, 1) == .deviceRevoked)
    }

    // MARK: - What is no going back

    @Test("a process killed at any moment keeps its epoch and accepts every valid next value")
    func killed() throws {
        let seed = RunSeed.tell()
        var generator = SeededGenerator(seed: seed)
        let store = try file.open()
        try store.populate(3)
        let identity = store.identity
        var next: [Int: UInt32] = [1: 1, 2: 1, 3: 1]
        for round in 0..<12 {
            for _ in 0..<Int.random(in: 1...20, using: &generator) {
                switch Int.random(in: 0..<6, using: &generator) {
                case 0: try store.tickWitness()
                case 1: _ = try store.fold()
                case 2: try store.checkpoint()
                default:
                    let device = Int.random(in: 1...3, using: &generator)
                    let value = try #require(next[device])
                    #expect(store.commit(device, value) == .committed)
                    next[device] = value + 1
                }
            }
            // What the kernel has of all files when the process is gone; the old one must not write any more.
            let killed = try WitnessedFile()
            for suffix in ["", "-wal"] {
                try? FileManager.default.copyItem(
                    atPath: file.scratch.file() + suffix, toPath: killed.scratch.file() + suffix)
            }
            try FileManager.default.copyItem(atPath: file.journalPath, toPath: killed.journalPath)
            try FileManager.default.copyItem(atPath: file.markPath, toPath: killed.markPath)
            let found = try killed.open()
            #expect(killed.heard() == [], "round \(round)")
            #expect(found.identity == identity)
            for (device, value) in next {
                #expect(found.commit(device, value - 1) == .replayed)
                #expect(found.commit(device, value) == .committed)
            }
        }
    }

    @Test("a store older than journals is opened unchanged, and its journal is created")
    func earlier() throws {
        var store: RegistryStore? = try RegistryStore(path: file.scratch.file(), creating: true)
        let ids = try #require(try store?.populate(3))
        _ = try store?.revoke(ids[0], at: 1_200)
        _ = try store?.endBinding(Fixture.bindingKey(2), at: 1_300)
        let identity = store?.identity
        store = nil
        store = try file.open()
        #expect(store?.identity == identity)
        #expect(file.heard() == [])
        #expect(try file.revocations.revoked == [Fixture.hardwareKey(1): 1_200])
        #expect(try file.revocations.ended == [Fixture.bindingKey(2): 1_300])
    }

    @Test("a repeated revocation writes one line, and a refused one writes none")
    func once() throws {
        let store = try file.open()
        let ids = try store.populate(1)
        for _ in 0..<3 { _ = try store.revoke(ids[0], at: 1_200) }
        let length = try file.journal().count
        #expect(
            length
                == (JournalText.header + JournalText.line(.revoked(Fixture.hardwareKey(1), at: 1_200), number: 2)).utf8
                .count)
        #expect(throws: StoreError.bindingUnknown) { try store.endBinding(Fixture.bindingKey(77)) }
        #expect(try file.journal().count == length)
    }
}

extension BindingRequest {
    /// The same, with a nonce that is good for as long as clocks go.
    fileprivate var expiringLate: BindingRequest {
        BindingRequest(
            hardwareKey: hardwareKey, key: key, nonce: SingleUse(id: nonce.id, expiresAt: 1 << 40), epoch: epoch,
            counter: counter, shown: shown, mode: mode, admission: admission, overlap: overlap, serial: serial,
            notAfter: notAfter)
    }
}
