import Chance
import EventLoop
import Foundation
import Glibc
import Testing
import RegistryMemory
import Vocabulary

@testable import Registry
@testable import RegistryPostgreSQL
@testable import RegistrySQLite

/// What durable counters cost in PostgreSQL on this machine. Prints, and promises nothing: run it in a release build with
/// `ATTESTGATE_MEASURE=1`.
@Suite(
    "Measurement: PostgreSQL", .serialized,
    .enabled(if: ProcessInfo.processInfo.environment["ATTESTGATE_MEASURE"] != nil && PostgreSQLServer.shared != nil))
struct PostgreSQLMeasurement {
    private static let devices = 10_000

    @Test("commits per second, and CPU time per counter", arguments: [1, 16, 128, 1024])
    func commits(_ batchSize: Int) throws {
        let place = try PostgreSQLPlace()
        var store: AskedStore? = try AskedStore(place)
        store = nil
        try fill(place)
        store = try AskedStore(place)
        guard let store else { return }
        var devices: [DeviceID] = []
        // All at once, and answered in their order.
        for number in 1...Self.devices {
            store.backend.find(Fixture.bindingKey(number)) { found in
                if case .success(let device?) = found { devices.append(device.id) }
            }
        }
        #expect(store.run { devices.count == Self.devices })

        var generator = SeededGenerator(seed: 1)
        var counters = [UInt32](repeating: 0, count: Self.devices + 1)
        let batches = (0..<max(50, 16_384 / batchSize)).map { _ in
            (0..<batchSize).map { _ in
                let number = Int.random(in: 1...Self.devices, using: &generator)
                counters[number] += 1
                return store.entry(devices[number - 1], number, counters[number], mode: .unspent)
            }
        }
        var times: [Double] = []
        var next = 0
        var committed = 0
        // As the store's thread does: as many as are taken.
        func give() {
            while next < batches.count, store.backend.takesBatch {
                let batch = batches[next]
                next += 1
                let start = Instant.now
                var left = batch.count
                store.backend.commit(batch) { _, outcome in
                    if outcome == .committed { committed += 1 }
                    left -= 1
                    guard left == 0 else { return }
                    times.append(Double((.now - start).nanoseconds) / 1_000)
                    store.loop.whenTurnEnds(give)
                }
            }
            if times.count == batches.count { store.loop.stop() }
        }
        let start = (Instant.now, processorTime())
        let first = LoopTimer(loop: store.loop, interval: .milliseconds(0)) { give() }
        withExtendedLifetime(first) { store.loop.run() }
        let seconds = Double((.now - start.0).nanoseconds) / 1e9
        let processor = processorTime() - start.1
        #expect(committed == batches.count * batchSize)
        times.sort()
        func text(_ value: Double) -> String { String(format: "%.2f", value) }
        print(
            """
            batch \(batchSize): \(Int(Double(batches.count) / seconds)) commits/s, \(Int(Double(committed) / seconds)) \
            counters/s, \(text(processor * 1e6 / Double(committed))) us CPU a counter in the gateway, \
            commit p50 \(text(times[times.count / 2])) p99 \(text(times[times.count * 99 / 100])) us
            """)
    }

    @Test("database time of an initialization, and of a key binding with a token")
    func enrolments() throws {
        let place = try PostgreSQLPlace()
        let store = try AskedStore(place)
        // The first ones prepare statements.
        for step in [initialize, bind] {
            for number in 1...100 { try step(number, store) }
        }
        let count = 2_000
        let work = try [initialize, bind].map { step in
            let before = try worked(place)
            for number in 101...100 + count { try step(number, store) }
            return Double(try worked(place) - before) * 1e6 / Double(sysconf(Int32(_SC_CLK_TCK))) / Double(count)
        }
        print("\(Int(work[0])) us of the database's processors an initialization, \(Int(work[1])) us a key binding")
    }

    /// Ticks that the connections of the gateway have worked.
    private func worked(_ place: PostgreSQLPlace) throws -> Int {
        let rows = try place.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = '\(place.database)' AND usename = 'attestgate'")
        // proc_pid_stat(5): utime and stime are the twelfth and thirteenth behind the name, which ends with the last parenthesis.
        return try (0..<rows.rows).reduce(0) { sum, row in
            let text = try String(contentsOfFile: "/proc/\(rows.text(row, 0))/stat", encoding: .utf8)
            let fields = text.split(separator: ")").last?.split(separator: " ") ?? []
            return sum + (Int(fields[11]) ?? 0) + (Int(fields[12]) ?? 0)
        }
    }

    private func initialize(_ number: Int, _ store: AskedStore) throws {
        // As long as Apple's mostly are.
        let attestation = AttestationRecord(
            digest: Fixture.fingerprint(number, kind: 6), receipt: [UInt8](repeating: 7, count: 3_700), riskMetric: 7)
        let made = try store.initialize(store.initialization(number, attestation: attestation))
        #expect(made.refusal == nil)
    }

    private func bind(_ number: Int, _ store: AskedStore) throws {
        let bound = try store.bind(
            store.keyBinding(
                number, key: number, nonce: 10_000 + number, counter: 1,
                admission: .token(Fixture.token(number), subject: Fixture.subject(number))))
        #expect(bound.kind == .first)
    }

    private func fill(_ place: PostgreSQLPlace) throws {
        func hexadecimal(_ bytes: [UInt8]) -> String {
            "'\\x" + bytes.map { String(format: "%02x", $0) }.joined() + "'::bytea"
        }
        let bits = hexadecimal(CounterWindow().bits)
        for slice in stride(from: 1, through: Self.devices, by: 1_000) {
            let numbers = slice..<min(slice + 1_000, Self.devices + 1)
            let rows = numbers.map { number in
                let identity = Fixture.identity(number)
                return """
                    (\(hexadecimal(identity.hardwareKey.bytes)), '\(identity.app)', '\(identity.platform.rawValue)', 'production', \
                    \(hexadecimal(identity.point.bytes)), 1, 1)
                    """
            }
            _ = try place.execute(
                """
                INSERT INTO device (hardware_key, app, platform, environment, point, registered_at, activated_at)
                VALUES \(rows.joined(separator: ","))
                """)
            let keys = numbers.map { "(\(hexadecimal(Fixture.bindingKey($0).bytes)), \($0), 1)" }
            _ = try place.execute(
                "INSERT INTO binding (key, device, created_at) VALUES \(keys.joined(separator: ","))")
        }
        _ = try place.execute(
            """
            INSERT INTO counter (device, highest, bits, shown_extensions) SELECT id, 0, \(bits), 0 FROM device;
            ANALYZE
            """)
    }

    private func processorTime() -> Double {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }
}
