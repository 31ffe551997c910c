import Testing
import RegistryMemory
import Vocabulary

@testable import Registry

/// What is known of a device, in every store.
@Suite("Posture in the registry")
struct PostureConformanceTests {
    private func app(_ version: String, _ distribution: UInt8? = 4) -> ShownApp {
        ShownApp(version: AppVersion(bundleVersion: version), distribution: distribution)
    }

    private func attestation(_ number: Int, _ app: ShownApp = ShownApp()) throws -> AttestationRecord {
        try #require(
            AttestationRecord(
                digest: Fixture.fingerprint(number, kind: 6), receipt: [1, 2], riskMetric: 3,
                systemVersion: SystemVersion("27.1"), app: app))
    }

    @Test("an iPhone has the app of its newest attestation or assertion", arguments: StoreKind.allCases)
    func iPhone(_ kind: StoreKind) throws {
        let place = try kind.makePlace()
        var expected = Posture(platform: .iOS, enrolledAt: 1_000, admission: .open)
        do {
            let store = try AskedStore(place)
            let request = store.initialization(2, attestation: try attestation(2, app("1.2")))
            guard case .registered(let details) = try store.initialize(request) else { throw AskedStore.OtherReply() }
            expected.system = SystemVersion("27.1")
            expected.app = AppVersion(bundleVersion: "1.2")
            expected.distribution = 4
            expected.keyProtection = .secureEnclave
            expected.risk = 3
            expected.attestedAt = 1_000
            #expect(Posture(details) == expected)
            // An assertion that shows nothing changes nothing.
            _ = try store.bind(store.keyBinding(2, key: 2, nonce: 2, counter: 1), at: 1_100)
            expected.boundAt = 1_100
            #expect(try store.find(2)?.posture == expected)
            let newer = store.keyBinding(2, key: 3, nonce: 3, counter: 2, app: app("1.10", 2))
            let bound = try #require(try store.bind(newer, at: 1_200).details)
            expected.app = AppVersion(bundleVersion: "1.10")
            expected.distribution = 2
            #expect(Posture(bound, binding: Fixture.bindingKey(2)) == expected)
            expected.boundAt = nil
            #expect(store.announcedPosture(bound.device.id.number) == expected)
            expected.boundAt = 1_200
            #expect(try store.find(3)?.posture == expected)
        }
        #expect(try AskedStore(place).find(3)?.posture == expected, "after reopening")
    }

    @Test("a noted app is kept, the last one of a device, and other gateways hear of it", arguments: StoreKind.allCases)
    func noted(_ kind: StoreKind) throws {
        let place = try kind.makePlace()
        let store = try AskedStore(place)
        let ids = try [2, 4].map { number in
            _ = try store.initialize(store.initialization(number, attestation: try attestation(number)))
            let request = store.keyBinding(number, key: number, nonce: number, counter: 1)
            return try #require(try store.bind(request).details).device.id
        }
        let operated = try store.details(.register(Fixture.identity(7), binding: Fixture.bindingKey(7))).device.id
        let other = kind == .postgresql ? try AskedStore(place) : nil
        let seen = [
            SeenDevice(ids[0], app: app("3.1")), SeenDevice(ids[1]), SeenDevice(operated, app: app("9")),
            SeenDevice(ids[0], app: app("3.2", nil)),
        ]
        #expect(try store.perform(.noteSeen(SeenDevices(seen, day: 20_000))) == .noted)
        #expect(try store.find(2)?.posture.app == AppVersion(bundleVersion: "3.2"))
        #expect(try store.find(2)?.posture.distribution == nil)
        #expect(try store.find(4)?.posture.app == nil)
        // A device without an attestation has no place for it, and shows it again.
        #expect(try store.find(7)?.posture.app == nil)
        let details = try store.details(.show(.id(ids[0])))
        #expect(details.device.lastSeen == 20_000 && details.attestation?.app == app("3.2", nil))
        guard let other else { return }
        other.run { other.announcedPosture(ids[0].number)?.app == AppVersion(bundleVersion: "3.2") }
        #expect(other.announcedPosture(ids[0].number)?.app == AppVersion(bundleVersion: "3.2"))
        #expect(other.announcedPosture(ids[1].number) == nil, "a day is not announced")
    }

    @Test(
        "an Android phone has what its newest attestation states, and whether its certificate's key is attested",
        arguments: StoreKind.allCases)
    func android(_ kind: StoreKind) throws {
        let place = try kind.makePlace()
        var expected = Posture(platform: .android, enrolledAt: 1_000, admission: .open)
        do {
            let store = try AskedStore(place)
            _ = try store.initialize(store.initialization(3))
            expected.system = SystemVersion("17.3")
            expected.app = AppVersion(code: 3)
            expected.keyProtection = .strongBox
            expected.boot = .verified
            expected.isBootloaderLocked = true
            expected.risk = 7
            expected.attestedAt = 1_000
            expected.isCertificateKeyAttested = false
            _ = try store.bind(store.keyBinding(3, key: 3, nonce: 3, counter: 1, keyAttestation: .missing), at: 1_100)
            expected.boundAt = 1_100
            #expect(try store.find(3)?.posture == expected)
            _ = try store.bind(store.keyBinding(3, key: 3, nonce: 4, counter: 2, keyAttestation: .earlier), at: 1_150)
            expected.isCertificateKeyAttested = true
            #expect(try store.find(3)?.posture == expected)
            let renewed = store.keyBinding(
                3, key: 4, nonce: 5, counter: 3, phone: Fixture.phone(5),
                keyAttestation: .new(SystemVersion("18")))
            _ = try store.bind(renewed, at: 1_200)
            expected.system = SystemVersion("18")
            expected.app = AppVersion(code: 5)
            expected.keyProtection = .trustedEnvironment
            expected.patchLevel = 202_601
            expected.vendorPatchLevel = 20_260_105
            expected.integrity = [.basic, .device]
            expected.integrityAt = 1_005
            expected.attestedAt = 1_200
            expected.boundAt = 1_200
            #expect(try store.find(4)?.posture == expected)
            // Of Google Play alone: nothing was attested again.
            let asked = store.keyBinding(
                3, key: 4, nonce: 6, counter: 4, phone: Fixture.phone(5).with(nil), keyAttestation: .missing)
            _ = try store.bind(asked, at: 1_250)
            (expected.integrity, expected.integrityAt, expected.isCertificateKeyAttested) = (nil, nil, false)
            #expect(try store.find(4)?.posture == expected)
        }
        #expect(try AskedStore(place).find(4)?.posture == expected, "after reopening")
    }

    @Test("the admission is what let the device in", arguments: StoreKind.allCases)
    func admission(_ kind: StoreKind) throws {
        let store = try AskedStore(try kind.makePlace())
        for (number, grant) in [
            (2, AdmissionGrant.open), (4, .approval), (5, .token(Fixture.token(1), subject: Fixture.subject(1))),
        ] {
            _ = try store.initialize(store.initialization(number))
            if number == 4 {
                let device = try store.details(.show(.hardwareKey(Fixture.hardwareKey(4)))).device.id
                try store.perform(.approve(device))
            }
            let request = store.keyBinding(number, key: number, nonce: number, counter: 1, admission: grant)
            #expect(try store.bind(request).refusal == nil)
        }
        _ = try store.details(.register(Fixture.identity(7), binding: Fixture.bindingKey(7)))
        #expect(
            try [2, 4, 5, 7].map { try store.find($0)?.posture.admission } == [.open, .approval, .token, .operator])
    }

    @Test("an export has what is known of devices, and an import keeps it", arguments: StoreKind.allCases)
    func export(_ kind: StoreKind) throws {
        let (origin, target) = (try kind.makePlace(), try kind.makePlace())
        let records = try {
            let store = try AskedStore(origin)
            _ = try store.initialize(store.initialization(2, attestation: try attestation(2, app("1.2"))))
            _ = try store.bind(store.keyBinding(2, key: 2, nonce: 2, counter: 1))
            _ = try store.initialize(store.initialization(3))
            let attested = store.keyBinding(
                3, key: 3, nonce: 3, counter: 1, phone: Fixture.phone(3), keyAttestation: .new(nil))
            _ = try store.bind(attested, at: 1_100)
            return try store.export()
        }()
        try target.load(records)
        let (before, after) = (try AskedStore(origin), try AskedStore(target))
        for number in [2, 3] {
            #expect(try after.find(number)?.posture == (try before.find(number)?.posture))
        }
        #expect(try after.find(2)?.posture.app == AppVersion(bundleVersion: "1.2"))
        #expect(try after.find(3)?.posture.attestedAt == 1_100)
        #expect(try after.find(3)?.posture.isCertificateKeyAttested == true)
    }
}
