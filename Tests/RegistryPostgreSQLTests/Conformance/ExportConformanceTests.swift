import Chance
import EventLoop
import Foundation
import Testing
import RegistryMemory
import Vocabulary

@testable import Registry
@testable import RegistrySQLite

@Suite("Every store: exports and imports")
struct ExportConformanceTests {
    /// From which kind of store to which.
    static let ways = StoreKind.allCases.flatMap { from in StoreKind.allCases.map { (from, $0) } }

    @Test("an import restores everything an export holds, in every kind of store", arguments: ways)
    func roundTrip(_ from: StoreKind, _ to: StoreKind) throws {
        let (origin, target) = (try from.makePlace(), try to.makePlace())
        try origin.fill()
        var store: AskedStore? = try AskedStore(origin)
        let first = try #require(try store?.export())
        let details = try (1...9).map { try store?.details(.show(.hardwareKey(Fixture.hardwareKey($0)))).comparable }
        let identity = store?.identity
        store = nil
        try target.load(first)
        store = try AskedStore(target)
        #expect(try store?.export().body == first.body)
        let now = try (1...9).map { try store?.details(.show(.hardwareKey(Fixture.hardwareKey($0)))).comparable }
        #expect(now == details)
        #expect(store?.identity.store != identity?.store)
        #expect(store?.identity.epoch != identity?.epoch)
        // And back.
        store = nil
        let back = try from.makePlace()
        try back.load(first)
        store = try AskedStore(back)
        #expect(try store?.export().body == first.body)
        #expect(first.kinds == ["head", "device", "certificate", "token", "subject", "barred"])
    }

    @Test("pages of any size give the same export", arguments: StoreKind.allCases)
    func pages(_ kind: StoreKind) throws {
        let place = try kind.makePlace()
        try place.fill()
        let store = try AskedStore(place)
        let whole = try store.export()
        for limit in [1, 2, 3, 5] { #expect(try store.export(limit: limit).body == whole.body) }
    }

    @Test(
        "used counters stay used, and unused ones stay valid, strictly and with a window",
        arguments: StoreKind.allCases)
    func counters(_ kind: StoreKind) throws {
        let (origin, target) = (try kind.makePlace(), try kind.makePlace())
        var records: [ExportRecord] = []
        var epoch: RandomID?
        do {
            let store = try AskedStore(origin)
            let id = try store.populate(1)[0]
            for value: UInt32 in [1, 3, 7] { #expect(try store.commit(id, 1, value) == .committed) }
            epoch = store.identity.epoch
            records = try store.export()
        }
        try target.load(records)
        let store = try AskedStore(target)
        let id = try store.details(.show(.binding(Fixture.bindingKey(1)))).device.id
        // The old challenges are of the old epoch.
        #expect(
            try store.commit([store.entry(id, 1, 8, epoch: epoch)]) == [.epochChanged])
        #expect(try store.commit(id, 1, 7) == .replayed)
        #expect(try store.commit(id, 1, 3, mode: window(16)) == .replayed)
        #expect(try store.commit(id, 1, 2) == .late(highest: 7))
        #expect(try store.commit(id, 1, 2, mode: window(16)) == .committed)
        #expect(try store.commit(id, 1, 8) == .committed)
    }

    @Test(
        "revoked devices, ended keys, barred subjects and used tokens stay so",
        arguments: StoreKind.allCases)
    func stays(_ kind: StoreKind) throws {
        let (origin, target) = (try kind.makePlace(), try kind.makePlace())
        try origin.fill()
        let now = WallClock.seconds
        try target.load(try AskedStore(origin).export(), at: now)
        let store = try AskedStore(target)
        let revoked = try store.details(.show(.hardwareKey(Fixture.hardwareKey(3))))
        #expect(revoked.device.state == .revoked)
        #expect(try store.commit(revoked.device.id, 3, 90) == .deviceRevoked)
        let ended = try store.details(.show(.hardwareKey(Fixture.hardwareKey(4)))).device.id
        #expect(try store.commit(ended, 4, 90) == .bindingEnded)
        #expect(throws: StoreError.keyBound) { try store.perform(.bind(Fixture.bindingKey(4), to: ended)) }
        // Barred by a journal, and known to no device.
        #expect(try store.initialize(store.initialization(70)).refusal == .deviceRevoked)
        #expect(throws: StoreError.keyBound) { try store.perform(.bind(Fixture.bindingKey(71), to: ended)) }

        func token(_ id: Int, expires: Int64, subject: Int, at time: Int64) throws -> KeyBindingVerdict {
            let number = 200 + id
            _ = try store.initialize(
                store.initialization(number, nonce: SingleUse(id: Fixture.nonce(number).id, expiresAt: time + 100)),
                at: time)
            let request = store.keyBinding(number, key: number, nonce: number, counter: 1)
            return try store.bind(
                BindingRequest(
                    hardwareKey: request.hardwareKey, key: request.key,
                    nonce: SingleUse(id: request.nonce.id, expiresAt: time + 100), epoch: request.epoch, counter: 1,
                    shown: [], mode: .strict,
                    admission: .token(
                        SingleUse(id: Fixture.token(id).id, expiresAt: expires), subject: Fixture.subject(subject)),
                    overlap: 100, serial: Fixture.randomSerial(), notAfter: time + 1_000), at: time)
        }
        let late = now + SingleUse.longestTokenLife + 10
        // Used before the export.
        #expect(try token(5, expires: late, subject: 5, at: now).refusal == .tokenUsed)
        // Perhaps used since: whatever can have been shown by now is refused for as long as it is good.
        #expect(try token(40, expires: now + SingleUse.longestTokenLife, subject: 5, at: now).refusal == .tokenExpired)
        #expect(try token(41, expires: now + 1, subject: 5, at: now).refusal == .tokenExpired)
        #expect(try token(42, expires: late, subject: 6, at: now).refusal == .subjectRevoked)
        #expect(try token(43, expires: late, subject: 5, at: now).refusal == nil)
    }

    @Test("keys that the registry has barred are barred in the imported data", arguments: StoreKind.allCases)
    func barred(_ kind: StoreKind) throws {
        let (origin, target) = (try kind.makePlace(), try kind.makePlace())
        let records = try {
            let store = try AskedStore(origin)
            try store.populate(3)
            return try store.export()
        }()
        let now = WallClock.seconds
        _ = try target.openAtRest()
        try target.bar(Fixture.hardwareKey(1), .hardware)
        try target.bar(Fixture.bindingKey(2), .mTLS)
        try target.load(records, at: now)
        let store = try AskedStore(target)
        let devices = try (1...3).map { try store.details(.show(.hardwareKey(Fixture.hardwareKey($0)))) }
        #expect(devices.map(\.device.revokedAt) == [now, nil, nil])
        #expect(devices.map { $0.bindings[0].endedAt } == [nil, now, nil])
        #expect(try store.commit(devices[0].device.id, 1, 1) == .deviceRevoked)
        #expect(try store.commit(devices[1].device.id, 2, 1) == .bindingEnded)
        #expect(try store.commit(devices[2].device.id, 3, 1) == .committed)
    }

    @Test("a registry with devices refuses an import and keeps its identity", arguments: StoreKind.allCases)
    func notEmpty(_ kind: StoreKind) throws {
        let (origin, target) = (try kind.makePlace(), try kind.makePlace())
        try origin.fill()
        let records = try AskedStore(origin).export()
        var store: AskedStore? = try AskedStore(target)
        try store?.details(.register(Fixture.identity(500), binding: nil))
        let before = try store?.export().body
        let identity = store?.identity
        store = nil
        #expect(throws: RegistryLoadError.notEmpty) { try target.load(records) }
        store = try AskedStore(target)
        #expect(try store?.export().body == before)
        #expect(store?.identity == identity)
    }

    @Test("an abandoned import, or one with a repeated key, leaves nothing behind", arguments: StoreKind.allCases)
    func givenUp(_ kind: StoreKind) throws {
        let (origin, target) = (try kind.makePlace(), try kind.makePlace())
        try origin.fill()
        let records = try AskedStore(origin).export()
        let identity = try AskedStore(target).identity
        let empty = try AskedStore(target).export().body
        #expect(throws: RegistryLoadError.abandoned) {
            try target.openAtRest().load { loading throws(RegistryLoadError) in
                for (index, record) in records.enumerated() { try loading.add(record, line: index + 1) }
                throw .abandoned
            }
        }
        guard case .device(let first) = records[1], case .device(var other) = records[2] else {
            throw AskedStore.OtherReply()
        }
        #expect(throws: RegistryLoadError.refused(line: 3, .hardwareKeyTwice)) {
            try target.load([records[0], records[1], records[1]])
        }
        other.bindings = first.bindings
        #expect(throws: RegistryLoadError.refused(line: 3, .bindingKeyTwice)) {
            try target.load([records[0], records[1], .device(other)])
        }
        let tag = [UInt8](repeating: 7, count: 32)
        let tagged = (0..<300).map { number -> ExportRecord in
            var device = first
            device.identity = Fixture.identity(number + 2_000)
            device.bindings = []
            device.attestation = ExportedAttestation(
                digest: Fixture.fingerprint(number, kind: 9), certificateKey: nil,
                tag: number % 299 == 0
                    ? tag : [UInt8](repeating: 1, count: 14) + [UInt8(number >> 8), UInt8(number & 255)])
            device.receipt = nil
            return .device(device)
        }
        for records in [[records[0], tagged[0], tagged[299]], [records[0]] + tagged] {
            #expect(throws: RegistryLoadError.refused(line: records.count, .tagTwice(tag))) { try target.load(records) }
        }
        // Not only among those that are written together.
        let many = (0..<300).map { number -> ExportRecord in
            var device = first
            device.identity = Fixture.identity(number + 1_000)
            device.bindings = []
            return .device(device)
        }
        #expect(throws: RegistryLoadError.refused(line: 302, .hardwareKeyTwice)) {
            try target.load([records[0]] + many + [many[7]])
        }
        let store = try AskedStore(target)
        #expect(store.identity == identity)
        #expect(try store.export().body == empty)
    }

    @Test(
        "every exported line is correct when its page is read, even under concurrent changes",
        arguments: StoreKind.allCases)
    func meanwhile(_ kind: StoreKind) throws {
        let seed = RunSeed.tell()
        var random = SeededGenerator(seed: seed)
        let (origin, target) = (try kind.makePlace(), try kind.makePlace())
        var store: AskedStore? = try AskedStore(origin)
        var traffic = ExportTraffic()
        for _ in 0..<60 { try store.map { try traffic.step($0, &random) } }
        var records: [ExportRecord] = []
        var cursor: ExportCursor? = .start
        var detailsByKey: [KeyID: DeviceDetails] = [:]
        while let place = cursor, let open = store {
            let page = try open.exportPage(place, limit: Int.random(in: 1...4, using: &random))
            records += page.records
            for case .device(let device) in page.records {
                let details = try open.details(.show(.hardwareKey(device.identity.hardwareKey)))
                #expect(details.comparable == device.comparable)
                detailsByKey[device.identity.hardwareKey] = details
            }
            for _ in 0..<Int.random(in: 0...3, using: &random) { try traffic.step(open, &random) }
            cursor = page.next
        }
        store = nil
        try target.load(records)
        let copy = try AskedStore(target)
        for (key, before) in detailsByKey {
            #expect(try copy.details(.show(.hardwareKey(key))).comparable == before.comparable)
        }
        // A token whose key is there is among the used ones.
        let tokens = Set(records.compactMap { if case .usedToken(let token) = $0 { token.id } else { nil } })
        #expect(!traffic.tokens.isEmpty)
        let keys = Set(detailsByKey.values.flatMap { $0.bindings.map(\.key) })
        for (token, key) in traffic.tokens where keys.contains(key) {
            #expect(tokens.contains(token), "seed \(seed)")
        }
        // Certificates are there with their bindings, and with no other.
        let kept = try copy.export().compactMap { record -> ExportedCertificate? in
            if case .certificate(let certificate) = record { certificate } else { nil }
        }
        let exported = records.compactMap { record -> ExportedCertificate? in
            if case .certificate(let certificate) = record { certificate } else { nil }
        }
        #expect(kept == exported.filter { keys.contains($0.key) })
    }
}
