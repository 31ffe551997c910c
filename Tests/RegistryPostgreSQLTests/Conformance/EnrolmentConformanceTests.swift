import EventLoop
import Testing
import RegistryMemory
import Vocabulary

@testable import Registry
@testable import RegistrySQLite

@Suite("Every store: enrolment, receipts, certificates")
struct EnrolmentConformanceTests {
    @Test(
        "an attestation makes a pending device, its repetition gets the same answer, another one is refused",
        arguments: StoreKind.allCases)
    func initialize(_ kind: StoreKind) throws {
        let place = try kind.makePlace()
        let store = try AskedStore(place)
        let request = store.initialization(1, showing: .validationCategory)
        guard case .registered(let details) = try store.initialize(request) else { throw AskedStore.OtherReply() }
        #expect(details.device.state == .pending)
        #expect(details.device.shown == .validationCategory)
        #expect(details.attestation == Fixture.attestation(1))
        #expect(details.bindings == [])
        #expect(try store.initialize(request) == .repeated(details))
        #expect(
            try store.initialize(store.initialization(1, attestation: Fixture.attestation(2))).refusal == .keyRegistered
        )
        #expect(try store.initialize(store.initialization(2, nonce: Fixture.nonce(1))).refusal == .nonceUsed)
        #expect(try store.initialize(store.initialization(2), at: 2_000).refusal == .nonceExpired)
        #expect(try store.initialize(store.initialization(2, epoch: RandomID())).refusal == .epochChanged)
        try store.perform(.revoke(details.device.id))
        #expect(try store.initialize(request).refusal == .deviceRevoked)
        #expect(throws: StoreError.devicePending) {
            guard case .registered(let other) = try store.initialize(store.initialization(3)) else { return }
            try store.perform(.bind(Fixture.bindingKey(9), to: other.device.id))
        }
    }

    @Test(
        "a device with a first binding is active at once, for its person, and is registered once",
        arguments: StoreKind.allCases)
    func admitted(_ kind: StoreKind) throws {
        let place = try kind.makePlace()
        let store = try AskedStore(place)
        let serial = Fixture.randomSerial()
        func request(
            _ number: Int, key: Int? = nil, subject: Int = 1, serial: CertificateSerial? = nil, nonce: Int? = nil
        ) -> InstanceRegistration {
            InstanceRegistration(
                identity: Fixture.identity(number), attestation: Fixture.attestation(number), shown: [],
                nonce: Fixture.nonce(nonce ?? number), epoch: store.identity.epoch,
                binding: InstanceRegistration.FirstBinding(
                    key: Fixture.bindingKey(key ?? number), serial: serial ?? Fixture.randomSerial(), notAfter: 50_000,
                    subject: Fixture.subject(subject)))
        }
        guard case .registered(let details) = try store.initialize(request(1, serial: serial)) else {
            throw AskedStore.OtherReply()
        }
        #expect(details.device.state == .active && details.device.subject == Fixture.subject(1))
        #expect(details.bindings.map(\.key) == [Fixture.bindingKey(1)])
        #expect(try store.details(.show(.binding(Fixture.bindingKey(1)))) == details)
        #expect(try store.initialize(request(1, serial: serial)).refusal == .nonceUsed, "not a repetition")
        #expect(try store.initialize(request(1, nonce: 3)).refusal == .keyRegistered)
        #expect(try store.initialize(request(2, nonce: 1)).refusal == .nonceUsed)
        #expect(try store.initialize(request(2, key: 1)).refusal == .keyBound)
        #expect(try store.initialize(request(2, serial: serial)).refusal == .serialUsed)
        try store.perform(.revokeSubject(Fixture.subject(2)))
        #expect(try store.initialize(request(2, subject: 2)).refusal == .subjectRevoked)
        #expect(try store.initialize(request(2)).refusal == nil)
        try store.perform(.revokeSubject(Fixture.subject(1)))
        #expect(try store.details(.show(.hardwareKey(Fixture.hardwareKey(1)))).device.state == .revoked)
        guard case .revokedCertificates(let page) = try store.perform(.listRevokedCertificates(after: nil, limit: 9))
        else { throw AskedStore.OtherReply() }
        #expect(page.certificates.map(\.serial).contains(serial))
    }

    @Test(
        "an app has no more devices for development than it may have, without revoked ones and those of users",
        arguments: StoreKind.allCases)
    func developmentLimit(_ kind: StoreKind) throws {
        let place = try kind.makePlace()
        let store = try AskedStore(place)
        func initialize(_ number: Int, _ identity: DeviceIdentity) throws -> InitializationVerdict {
            try store.initialize(
                InstanceRegistration(
                    identity: identity, attestation: Fixture.attestation(number), shown: [],
                    nonce: Fixture.nonce(number), epoch: store.identity.epoch, developmentLimit: 2))
        }
        #expect(try initialize(1, Fixture.identity(1)).refusal == nil)
        #expect(try initialize(4, Fixture.identity(4)).refusal == nil)
        #expect(try initialize(7, Fixture.identity(7)).refusal == nil)
        #expect(try initialize(2, Fixture.developer(2)).refusal == nil)
        guard case .registered(let second) = try initialize(3, Fixture.developer(3)) else {
            throw AskedStore.OtherReply()
        }
        #expect(try initialize(5, Fixture.developer(5)).refusal == .tooManyForDevelopment)
        // A lost response is repeated all the same.
        #expect(try initialize(3, Fixture.developer(3)) == .repeated(second))
        try store.perform(.revoke(second.device.id))
        #expect(try initialize(5, Fixture.developer(5)).refusal == nil)
        #expect(try initialize(6, Fixture.developer(6)).refusal == .tooManyForDevelopment)
        #expect(try initialize(10, Fixture.identity(10)).refusal == nil)
    }

    @Test(
        "where devices renew over their own connections, others renew only after their certificate has expired",
        arguments: StoreKind.allCases)
    func renewal(_ kind: StoreKind) throws {
        let place = try kind.makePlace()
        let store = try AskedStore(place)
        guard case .registered(let device) = try store.initialize(store.initialization(1)),
            case .registered(let other) = try store.initialize(store.initialization(2))
        else { throw AskedStore.OtherReply() }
        func bind(
            _ key: Int, _ count: Int, at time: Int64, until end: Int64 = 1_100,
            _ renewal: KeyRenewal = .afterExpiry(grace: 100)
        ) throws -> KeyBindingVerdict {
            try store.bind(
                store.keyBinding(
                    1, key: key, nonce: count, counter: UInt32(count), notAfter: end, renewal: renewal), at: time)
        }
        #expect(try bind(1, 1, at: 1_000).kind == .first)
        #expect(try bind(2, 2, at: 1_099).refusal == .renewalElsewhere)
        #expect(try bind(1, 2, at: 1_099).kind == .renewal, "an answer that was lost")
        #expect(try bind(2, 3, at: 1_201).refusal == .renewalElsewhere)
        #expect(try bind(2, 3, at: 1_100, until: 1_300).kind == .rotation)
        #expect(try bind(1, 4, at: 1_150).refusal == .renewalElsewhere, "no longer the newest")
        #expect(try bind(3, 4, at: 1_150, .ofDevice(other.device.id)).refusal == .renewalElsewhere)
        #expect(try bind(3, 4, at: 1_150, .ofDevice(device.device.id)).kind == .rotation)
    }

    @Test("a device that is attested again has the time and the system of now", arguments: StoreKind.allCases)
    func reattestation(_ kind: StoreKind) throws {
        let place = try kind.makePlace()
        let store = try AskedStore(place)
        guard case .registered(let device) = try store.initialize(store.initialization(1)) else {
            throw AskedStore.OtherReply()
        }
        func reattest(
            _ nonce: Int, _ evidence: Reattestation.Evidence?, at time: Int64, epoch: RandomID? = nil,
            saying signals: String? = nil
        ) throws -> ReattestationVerdict {
            let request = Reattestation(
                device: device.device.id, nonce: Fixture.nonce(nonce), epoch: epoch ?? store.identity.epoch,
                phone: nil, evidence: evidence, app: ShownApp(distribution: 4),
                signals: signals.flatMap { Signals(content: Array($0.utf8), claimedAt: time) })
            guard case .reattestation(let verdict) = try store.perform(.reattest(request), at: time) else {
                throw AskedStore.OtherReply()
            }
            return verdict
        }
        #expect(try reattest(100, .assertion, at: 1_500, epoch: RandomID()) == .refused(.epochChanged))
        #expect(try reattest(100, .assertion, at: 2_000) == .refused(.nonceExpired))
        guard case .renewed(let first) = try reattest(100, .assertion, at: 1_500) else { throw AskedStore.OtherReply() }
        #expect(first.attestation?.attestedAt == 1_500 && first.attestation?.app.distribution == 4)
        #expect(first.attestation?.systemVersion == device.attestation?.systemVersion)
        #expect(try reattest(100, .assertion, at: 1_501) == .refused(.nonceUsed))
        let version = SystemVersion("18.1")
        guard case .renewed(let second) = try reattest(101, .attestation(version), at: 1_600) else {
            throw AskedStore.OtherReply()
        }
        #expect(second.attestation?.attestedAt == 1_600 && second.attestation?.systemVersion == version)
        guard case .renewed(let third) = try reattest(102, nil, at: 1_700) else { throw AskedStore.OtherReply() }
        #expect(third.attestation?.attestedAt == 1_600, "nothing that was shown")
        #expect(third.signals == nil && Posture(third).claims == Claims())
        for (number, text) in [#"{"systemVersion":"iOS 17.1"}"#, #"{"isDeviceSecure":true}"#].enumerated() {
            guard case .renewed(let said) = try reattest(110 + number, nil, at: 1_700, saying: text) else {
                throw AskedStore.OtherReply()
            }
            let signals = Signals(content: Array(text.utf8), claimedAt: 1_700)
            #expect(said.signals == signals && Posture(said).claims == signals?.claims)
        }
        guard case .renewed(let silent) = try reattest(104, nil, at: 1_800) else { throw AskedStore.OtherReply() }
        #expect(silent.signals?.claimedAt == 1_700, "nothing new that was said")
        try store.perform(.revoke(device.device.id))
        #expect(try reattest(103, .assertion, at: 1_800) == .refused(.deviceRevoked))
    }

    @Test(
        "a key binding uses nonce, counter and token if it succeeds, and nothing if refused",
        arguments: StoreKind.allCases)
    func keyBinding(_ kind: StoreKind) throws {
        let place = try kind.makePlace()
        let store = try AskedStore(place)
        guard case .registered(let device) = try store.initialize(store.initialization(1)) else {
            throw AskedStore.OtherReply()
        }
        let id = device.device.id
        let token = AdmissionGrant.token(Fixture.token(1), subject: Fixture.subject(1))
        let request = store.keyBinding(1, key: 1, nonce: 1, counter: 5, showing: .validationCategory, admission: token)
        #expect(
            try store.bind(store.keyBinding(1, key: 1, nonce: 1, counter: 5, epoch: RandomID())).refusal
                == .epochChanged)
        #expect(try store.bind(store.keyBinding(7, key: 1, nonce: 1, counter: 5)).refusal == .deviceUnknown)
        #expect(
            try store.bind(store.keyBinding(1, key: 1, nonce: 1, counter: 5, admission: .approval)).refusal
                == .awaitingApproval)
        #expect(
            try store.bind(store.keyBinding(1, key: 1, nonce: 1, counter: 5, admission: .earlier)).refusal
                == .admissionRequired)
        #expect(try store.bind(request, at: 2_000).refusal == .nonceExpired)
        let bound = try store.bind(request)
        #expect(bound.kind == .first)
        #expect(bound.details?.device.state == .active)
        #expect(bound.details?.device.subject == Fixture.subject(1))
        #expect(bound.details?.device.highestCounter == 5)
        #expect(bound.details?.device.shown == .validationCategory)
        #expect(try store.bind(request).refusal == .nonceUsed)
        #expect(try store.commit(id, 1, 5, showing: .validationCategory) == .replayed)
        func next(_ key: Int, _ nonce: Int, _ counter: UInt32, _ admission: AdmissionGrant = .earlier) throws
            -> KeyBindingVerdict
        {
            try store.bind(
                store.keyBinding(
                    1, key: key, nonce: nonce, counter: counter, showing: .validationCategory, admission: admission))
        }
        #expect(try next(2, 2, 5).refusal == .counterReplayed)
        #expect(try next(2, 2, 3).refusal == .counterLate)
        #expect(try next(2, 2, 6, token).refusal == .tokenUsed)
        #expect(try store.bind(store.keyBinding(1, key: 2, nonce: 2, counter: 6)).refusal == .extensionWithheld)
        // All of these have left the nonce and the value as they were.
        #expect(try next(1, 2, 6).kind == .renewal)
        #expect(try next(2, 3, 7).kind == .rotation)
        #expect(try next(1, 4, 8).refusal == .keyBound)
        #expect(try store.commit(id, 1, 8, showing: .validationCategory) == .committed)
        #expect(try store.commit(id, 2, 9, showing: .validationCategory) == .committed)
    }

    @Test(
        "what a phone attested last is kept, with each certificate that vouches for one of its keys, and its tag",
        arguments: StoreKind.allCases)
    func phone(_ kind: StoreKind) throws {
        let place = try kind.makePlace()
        let store = try AskedStore(place)
        let attestation = Fixture.attestation(3, tag: Fixture.tag(3))
        guard case .registered(let device) = try store.initialize(store.initialization(3, attestation: attestation))
        else { throw AskedStore.OtherReply() }
        #expect(device.attestation?.phone == Fixture.phone(3))
        #expect(device.attestation?.tag == Fixture.tag(3))
        #expect(try store.details(.show(.tag(Fixture.tag(3)))).device.id == device.device.id)
        let plain = store.keyBinding(3, key: 1, nonce: 1, counter: 1)
        #expect(try store.bind(plain).details?.attestation?.phone == Fixture.phone(3))
        let bound = try store.bind(store.keyBinding(3, key: 2, nonce: 2, counter: 2, phone: Fixture.phone(5)))
        #expect(bound.details?.attestation?.phone?.appVersion == 5)
        #expect(bound.details?.attestation?.phone?.serials == ["1f", "abc3", "abc5"])
        // The tag is that of one device only, and a phone without one is found by its hardware key.
        #expect(try store.initialize(store.initialization(4, attestation: attestation)).refusal == .tagTaken)
        guard case .registered(let other) = try store.initialize(store.initialization(4)) else {
            throw AskedStore.OtherReply()
        }
        #expect(other.attestation?.phone == nil)
        #expect(throws: StoreError.deviceUnknown) { try store.details(.show(.tag(Fixture.tag(4)))) }
    }

    @Test(
        "a device with a listed certificate is marked until it is listed no more, and announced each time",
        arguments: StoreKind.allCases)
    func listedKeys(_ kind: StoreKind) throws {
        let place = try kind.makePlace()
        let store = try AskedStore(place)
        // Odd numbers are Android phones, with the certificates 1f and abc of the number.
        for number in 1...6 {
            guard case .registered = try store.initialize(store.initialization(number)) else {
                throw AskedStore.OtherReply()
            }
            let request = store.keyBinding(number, key: number, nonce: number, counter: 1)
            #expect(try store.bind(request).details != nil)
        }
        func page(_ command: RegistryCommand) throws -> (changed: [Int64], kept: Int, next: Int64?) {
            guard case .listedKeys(let page) = try store.perform(command) else { throw AskedStore.OtherReply() }
            return (page.changed.map(\.device.id.number), page.kept, page.next?.number)
        }
        func mark(_ serials: [String], after: Int64 = 0, limit: Int = 10) throws -> (changed: [Int64], next: Int64?) {
            let search = ListedKeySearch(serials: serials, after: DeviceID(after), limit: limit)
            let page = try page(.markListedKeys(search))
            return (page.changed, page.next)
        }
        func release(_ listed: Set<String>, after: Int64 = 0, limit: Int = 10) throws
            -> (changed: [Int64], kept: Int, next: Int64?)
        {
            try page(.releaseUnlistedKeys(ListedKeyReview(listed: listed, after: DeviceID(after), limit: limit)))
        }
        func found(_ number: Int) throws -> Bool? { try store.find(number)?.isKeyListed }

        let ids = try (1...6).map { try store.details(.show(.hardwareKey(Fixture.hardwareKey($0)))).device.id.number }
        #expect(try mark([]).changed == [] && mark(["77", "abc2"]).changed == [])
        #expect(try mark(["77", "abc3"]) == ([ids[2]], nil))
        #expect(try found(3) == true && found(1) == false && found(2) == false)
        #expect(store.announced(ids[2]) == true)
        // Those that are marked are not found again, and pages continue behind the last.
        #expect(try mark(["1f", "abc3"], limit: 1) == ([ids[0]], ids[0]))
        #expect(try mark(["1f", "abc3"], after: ids[0], limit: 1) == ([ids[4]], ids[4]))
        #expect(try mark(["1f", "abc3"], after: ids[4], limit: 1) == ([], nil))
        #expect(try store.details(.show(.hardwareKey(Fixture.hardwareKey(5)))).attestation?.isKeyListed == true)
        #expect(try release(["1f"]) == ([], 3, nil))
        #expect(try release(["abc1", "abc5"], limit: 2) == ([ids[2]], 1, ids[2]))
        #expect(try release(["abc1", "abc5"], after: ids[2], limit: 2) == ([], 1, nil))
        #expect(try found(3) == false && found(5) == true)
        #expect(store.announced(ids[2]) == false)
        #expect(try release([]) == ([ids[0], ids[4]], 0, nil))
        #expect(try release([]) == ([], 0, nil))
    }

    @Test(
        "an attested key must be bound first, and an approval admits a device", arguments: StoreKind.allCases
    )
    func attestedKeyAndApproval(_ kind: StoreKind) throws {
        let place = try kind.makePlace()
        let store = try AskedStore(place)
        let attestation = Fixture.attestation(1, certificateKey: Fixture.bindingKey(1))
        guard case .registered(let device) = try store.initialize(store.initialization(1, attestation: attestation))
        else {
            throw AskedStore.OtherReply()
        }
        #expect(try store.bind(store.keyBinding(1, key: 2, nonce: 1, counter: 1)).refusal == .keyMismatch)
        #expect(try store.details(.approve(device.device.id), at: 1_234).device.approvedAt == 1_234)
        #expect(try store.details(.approve(device.device.id), at: 1_300).device.approvedAt == 1_234)
        #expect(try store.bind(store.keyBinding(1, key: 1, nonce: 1, counter: 1, admission: .approval)).kind == .first)
        // Taken by now.
        guard case .registered = try store.initialize(store.initialization(2)) else { throw AskedStore.OtherReply() }
        #expect(try store.bind(store.keyBinding(2, key: 1, nonce: 2, counter: 1)).refusal == .keyBound)
    }

    @Test(
        "a replaced key ends with its overlap, and what has expired stays refused",
        arguments: StoreKind.allCases)
    func time(_ kind: StoreKind) throws {
        let place = try kind.makePlace()
        let store = try AskedStore(place)
        guard case .registered(let device) = try store.initialize(store.initialization(1)) else {
            throw AskedStore.OtherReply()
        }
        #expect(try store.bind(store.keyBinding(1, key: 1, nonce: 1, counter: 1)).kind == .first)
        let rotated = try store.bind(store.keyBinding(1, key: 2, nonce: 2, counter: 2, overlap: 60), at: 1_010)
        #expect(rotated.details?.bindings.map(\.endsAt) == [1_070, nil])
        #expect(try store.find(1)?.isBound == true)
        store.time = 2_500
        #expect(store.run { store.closed.contains(Fixture.bindingKey(1)) })
        #expect(try store.find(1)?.isBound == false)
        #expect(try store.commit(device.device.id, 1, 3) == .bindingEnded)
        #expect(try store.commit(device.device.id, 2, 3) == .committed)
        // Those nonces were removed meanwhile, so none that expires with them is taken by a clock that was put back.
        #expect(store.run { (try? store.initialize(store.initialization(5)).refusal) == .nonceExpired })
    }

    @Test(
        "certificates of revoked devices and ended bindings are listed in pages with growing numbers",
        arguments: StoreKind.allCases)
    func certificates(_ kind: StoreKind) throws {
        let place = try kind.makePlace()
        let store = try AskedStore(place)
        let now: Int64 = 100_000
        var ids: [DeviceID] = []
        func good(_ number: Int) -> SingleUse {
            SingleUse(id: Fixture.fingerprint(number, kind: 3), expiresAt: now + 3_600)
        }
        for number in 1...4 {
            guard
                case .registered(let device) = try store.initialize(
                    store.initialization(number, nonce: good(number)), at: now)
            else { throw AskedStore.OtherReply() }
            ids.append(device.device.id)
            let binding = BindingRequest(
                hardwareKey: Fixture.hardwareKey(number), key: Fixture.bindingKey(number), nonce: good(100 + number),
                epoch: store.identity.epoch, counter: 1, shown: [], mode: .strict, admission: .open, overlap: 0,
                serial: Fixture.serial(number), notAfter: now + 3_600)
            #expect(try store.bind(binding, at: now).kind == .first)
        }
        try store.perform(.revoke(ids[0]), at: now + 1)
        try store.perform(.endBinding(Fixture.bindingKey(3)), at: now + 2)
        func ends(_ end: Int64) throws -> [Int64]? {
            guard case .expiring(let page) = try store.perform(.listExpiring(after: .init(after: now), until: end))
            else {
                throw AskedStore.OtherReply()
            }
            #expect(page.next == nil)
            return page.ends
        }
        // Of those that are neither revoked nor ended.
        #expect(try ends(now + 3_600) == [now + 3_600, now + 3_600])
        #expect(try ends(now + 3_599) == [])
        var found: [RevokedCertificate] = []
        var next: CertificateSerial?
        var pages = 0
        repeat {
            guard
                case .revokedCertificates(let page) =
                    try store.perform(.listRevokedCertificates(after: next, limit: 3), at: now + 3)
            else { throw AskedStore.OtherReply() }
            found += page.certificates
            next = page.next
            pages += 1
        } while next != nil
        #expect(pages == 2)
        #expect(Set(found.map(\.serial.bytes)) == [Fixture.serial(1).bytes, Fixture.serial(3).bytes])
        #expect(found.first { $0.serial == Fixture.serial(1) }?.reason == .certificateHold)
        #expect(found.first { $0.serial == Fixture.serial(3) }?.reason == .cessationOfOperation)
        #expect(found.first { $0.serial == Fixture.serial(3) }?.revokedAt == now + 2)
        #expect(try store.perform(.drawRevocationListNumber, at: now) == .revocationListNumber(now))
        #expect(try store.perform(.drawRevocationListNumber, at: now) == .revocationListNumber(now + 1))
        guard case .registered = try store.initialize(store.initialization(9, nonce: good(9)), at: now) else {
            throw AskedStore.OtherReply()
        }
        let again = BindingRequest(
            hardwareKey: Fixture.hardwareKey(9), key: Fixture.bindingKey(9), nonce: good(109),
            epoch: store.identity.epoch, counter: 1, shown: [], mode: .strict, admission: .open, overlap: 0,
            serial: Fixture.serial(1), notAfter: now + 3_600)
        #expect(try store.bind(again, at: now).refusal == .serialUsed)
    }

    @Test(
        "a receipt is claimed once, and a result replaces only the receipt it was requested with",
        arguments: StoreKind.allCases)
    func receipts(_ kind: StoreKind) throws {
        let place = try kind.makePlace()
        let store = try AskedStore(place)
        var ids: [DeviceID] = []
        for number in 1...3 {
            guard
                case .registered(let device) = try store.initialize(
                    store.initialization(number), at: Int64(1_000 + number))
            else { throw AskedStore.OtherReply() }
            ids.append(device.device.id)
        }
        try store.perform(.revoke(ids[1]))
        func claim(_ limit: Int, at time: Int64) throws -> ClaimedReceipts {
            guard
                case .claimedReceipts(let claimed) =
                    try store.perform(.claimReceipts(ReceiptClaim(at: time, until: time + 100, limit: limit)))
            else { throw AskedStore.OtherReply() }
            return claimed
        }
        let first = try claim(1, at: 1_050)
        #expect(first.devices.map(\.device.id) == [ids[0]])
        #expect(first.isMoreDue)
        #expect(try claim(5, at: 1_050).devices.map(\.device.id) == [ids[2]])
        #expect(try claim(5, at: 1_050).devices == [])
        #expect(first.devices.first?.attestation?.systemVersion == SystemVersion("17.1"))
        let newer = ReceiptResult.NewerReceipt(content: [9, 9], riskMetric: 30)
        let result = ReceiptResult(
            device: ids[0], previous: [1, 2, 3], newer: newer, createdAt: 900, nextAt: 5_000, askedAt: 1_060,
            outcome: .refreshed, failures: 0)
        guard case .recordedReceipt(.recorded(let details)) = try store.perform(.recordReceipt(result)) else {
            throw AskedStore.OtherReply()
        }
        #expect(details.attestation?.receipt == [9, 9])
        #expect(details.attestation?.riskMetric == 30)
        #expect(details.attestation?.systemVersion == SystemVersion("17.1"), "that of the attestation, which stays")
        #expect(details.refresh?.outcome == .refreshed)
        #expect(details.refresh?.nextAt == 5_000)
        #expect(try store.perform(.recordReceipt(result)) == .recordedReceipt(.superseded))
        let app = Fixture.identity(1).app
        #expect(
            try store.perform(
                .receiptFigures(ceilings: [(app, 29), (app, 30)] as [(app: AppID, highest: UInt32)], at: 2_000))
                == .receiptFigures(ReceiptFigures(aboveCeiling: [1, 0], oldestDue: 1_150)))
    }

    @Test(
        "the system version of an attestation is stored, and found by the keys of its device",
        arguments: StoreKind.allCases)
    func systemVersion(_ kind: StoreKind) throws {
        let place = try kind.makePlace()
        do {
            let store = try AskedStore(place)
            for number in 4...6 {
                #expect(try store.initialize(store.initialization(number)).refusal == nil)
                #expect(
                    try store.bind(store.keyBinding(number, key: number, nonce: number, counter: 1)).kind == .first)
                #expect(try store.find(number)?.posture.system == Fixture.attestation(number).systemVersion)
            }
        }
        let store = try AskedStore(place)
        #expect(try store.find(4)?.posture.system == SystemVersion("17.4"))
        #expect(try store.find(5)?.posture.system == nil)
        #expect(try store.find(6)?.posture.system == SystemVersion("17.6"))
        let details = try store.details(.show(.hardwareKey(Fixture.hardwareKey(6))))
        #expect(details.attestation == Fixture.attestation(6))
    }
}
