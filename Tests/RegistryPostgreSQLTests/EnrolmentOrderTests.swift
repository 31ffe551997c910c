import EventLoop
import Foundation
import Synchronization
import Testing
import RegistryMemory
import Vocabulary

@testable import Registry
@testable import RegistryPostgreSQL
@testable import RevocationJournal

@Suite("Concurrent enrolment at several gateways", .enabled(if: PostgreSQLServer.shared != nil))
struct EnrolmentOrderTests {
    private let place: PostgreSQLPlace

    init() throws {
        place = try PostgreSQLPlace()
    }

    /// With patience for any machine.
    private var settings: PostgreSQLSettings {
        var settings = place.server.settings(place.database)
        settings.limits.statement = .seconds(60)
        settings.limits.answering = .seconds(60)
        settings.limits.queueing = .seconds(60)
        return settings
    }

    /// What a gateway's desk has.
    private static func database(_ settings: PostgreSQLSettings) throws -> RegistryDatabase {
        try RegistryDatabase(atRest: settings, making: true, isLoading: false)
    }

    /// Enrols the device of the number, with the key of that number.
    private static func enrol(
        _ number: Int, _ database: RegistryDatabase, admission: AdmissionGrant = .open
    ) throws -> KeyBindingVerdict {
        let epoch = database.identity.epoch
        _ = try database.initialize(
            InstanceRegistration(
                identity: Fixture.identity(number), attestation: Fixture.attestation(number), shown: [],
                nonce: Fixture.nonce(number), epoch: epoch), at: 1_000)
        return try database.bindKey(binding(number, epoch, admission), at: 1_000)
    }

    private static func binding(_ number: Int, _ epoch: RandomID, _ admission: AdmissionGrant) -> BindingRequest {
        BindingRequest(
            hardwareKey: Fixture.hardwareKey(number), key: Fixture.bindingKey(number),
            nonce: Fixture.nonce(1_000 + number), epoch: epoch, counter: 1, shown: [], mode: .strict,
            admission: admission, overlap: 100, serial: Fixture.randomSerial(), notAfter: 50_000)
    }

    /// Runs a body for each number on a thread of its own, and waits for all.
    private func atOnce(_ numbers: Range<Int>, _ body: @escaping @Sendable (Int) throws -> Void) throws {
        let errors = Mutex<[String]>([])
        let shared = Shared(errors)
        let threads = try numbers.map { number in
            try LoopThread(name: "gateway") {
                do { try body(number) } catch { shared.value.withLock { $0.append("\(error)") } }
            }
        }
        for thread in threads { thread.join() }
        #expect(shared.value.withLock { $0 } == [])
    }

    private final class Shared<Value: ~Copyable & Sendable>: Sendable {
        let value: Value
        init(_ value: consuming Value) { self.value = value }
    }

    @Test("a reader of the change feed misses nothing while others write")
    func feedOrder() throws {
        let settings = settings
        let (writers, each) = (4, 20)
        // A change for each enrolment, each revocation, and each restoration.
        let all = Int64(writers * (each + each / 5 * 2))
        _ = try Self.database(settings)
        try atOnce(0..<writers + 1) { number in
            let database = try Self.database(settings)
            guard number < writers else { return try Self.read(database, until: all) }
            for index in 1...each {
                let verdict = try Self.enrol(100 * number + index, database)
                let details = try #require(verdict.details)
                guard index % 5 == 0 else { continue }
                _ = try database.revoke(details.device.id, at: 1_001)
                _ = try database.restore(details.device.id, at: 1_002)
            }
        }
        #expect(try place.execute("SELECT count(*) FROM change").text(0, 0) == "\(all)")
    }

    /// As a gateway does: whatever is beyond what it has heard of.
    private static func read(_ database: RegistryDatabase, until last: Int64) throws {
        var position: Int64 = 0
        // Nobody writes any longer that would bring it further.
        let deadline = Instant.now + .seconds(120)
        while position < last, Instant.now < deadline {
            let promised = try database.run("SELECT last FROM feed").integer(0, 0)
            let rows = try database.run("SELECT seq FROM change WHERE seq > $1 ORDER BY seq", [.integer(position)])
            for row in 0..<rows.rows {
                let number = try rows.integer(row, 0)
                #expect(number == position + 1)
                position = number
            }
            #expect(position >= promised)
        }
        #expect(position == last)
    }

    @Test("a token presented concurrently admits one device, and the others learn the reason")
    func oneToken() throws {
        let settings = settings
        let kinds = Shared(Mutex<[String]>([]))
        _ = try Self.database(settings)
        try atOnce(1..<7) { number in
            let verdict = try Self.enrol(
                number, try Self.database(settings), admission: .token(Fixture.token(1), subject: Fixture.subject(1)))
            let said = verdict.kind.map { "\($0)" } ?? verdict.refusal.map { "\($0)" } ?? ""
            kinds.value.withLock { $0.append(said) }
        }
        let tokenUsed = "\(KeyBindingRefusal.tokenUsed)"
        #expect(
            kinds.value.withLock { $0.sorted() }
                == (["\(KeyBindingKind.first)"] + [String](repeating: tokenUsed, count: 5)).sorted())
        #expect(try place.execute("SELECT count(*) FROM binding").text(0, 0) == "1")
        #expect(try place.execute("SELECT count(*) FROM device WHERE activated_at IS NOT NULL").text(0, 0) == "1")
    }

    @Test("a nonce presented concurrently registers one device")
    func oneNonce() throws {
        let registered = try registerAtOnce(6, refusal: .nonceUsed) { number, epoch in
            InstanceRegistration(
                identity: Fixture.identity(number), attestation: Fixture.attestation(number), shown: [],
                nonce: Fixture.nonce(1), epoch: epoch)
        }
        #expect(registered == 1)
        #expect(try place.execute("SELECT count(*) FROM device").text(0, 0) == "1")
    }

    /// Registers devices, each at a gateway of its own.
    ///
    /// - Parameters:
    ///   - refusal: What those get that are not registered.
    ///   - registration: Of the device of a number, in the store's epoch.
    /// - Returns: How many are registered.
    private func registerAtOnce(
        _ count: Int, refusal: InitializationRefusal,
        _ registration: @escaping @Sendable (Int, RandomID) -> InstanceRegistration
    ) throws -> Int {
        let settings = settings
        let made = Shared(Mutex(0))
        _ = try Self.database(settings)
        try atOnce(1..<count + 1) { number in
            let database = try Self.database(settings)
            let verdict = try database.initialize(registration(number, database.identity.epoch), at: 1_000)
            if case .registered = verdict { return made.value.withLock { $0 += 1 } }
            #expect(verdict.refusal == refusal)
        }
        return made.value.withLock { $0 }
    }

    @Test("devices for development that enrol concurrently do not exceed their limit")
    func developmentLimit() throws {
        let registered = try registerAtOnce(8, refusal: .tooManyForDevelopment) { number, epoch in
            InstanceRegistration(
                identity: Fixture.developer(number), attestation: Fixture.attestation(number), shown: [],
                nonce: Fixture.nonce(number), epoch: epoch, developmentLimit: 3)
        }
        #expect(registered == 3)
    }
}

extension RegistryDatabase: OperatedStore {
    func answer(_ command: RegistryCommand, at time: Int64) throws -> RegistryReply { try perform(command, at: time) }
}
