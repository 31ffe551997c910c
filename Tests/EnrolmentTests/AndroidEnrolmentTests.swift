import Attestation
import Cryptography
import DeviceSimulator
import EventLoop
import Registry
import Testing
import Vocabulary

@testable import Enrolment

@Suite("Enrolment of Android phones")
struct AndroidEnrolmentTests {
    @Test("a phone is registered with what it attested, and bound with its counter and a signature")
    func first() throws {
        let phone = try TestPhone()
        let answer = try phone.initialize()
        #expect(answer.status == 204, "\(answer)")
        let pending = try phone.device()
        #expect(pending.device.identity.platform == .android)
        #expect(pending.device.identity.environment == .simulator)
        let attested = try #require(pending.attestation?.phone)
        #expect(attested.securityLevel == .trustedEnvironment)
        #expect(attested.bootState == .verified && attested.isLocked)
        #expect(attested.patchLevel == 202_610 && attested.bootPatchLevel == 20_261_001)
        #expect(attested.appVersion == 1)
        #expect(attested.serials.count == 3)
        #expect(pending.attestation?.systemVersion == SystemVersion("16"))
        #expect(pending.attestation?.tag == phone.tag)
        let bound = try phone.bind(try phone.draft(counter: 7))
        #expect(bound.status == 200, "\(bound)")
        let device = try phone.device()
        #expect(device.device.state == .active)
        #expect(device.device.highestCounter == 7)
        #expect(device.attestation?.isCertificateKeyAttested == false && device.attestation?.attestedAt == nil)
        #expect(phone.service.metrics.attestationsVerified == 1)
        #expect(phone.service.decisions.count == 2)
    }

    @Test("the nonce itself or a hash of nonce and label is the challenge, where the app is configured so")
    func forms() throws {
        for form in ClientDataFormat.allCases {
            let phone = try TestPhone { $0.form = form }
            #expect(try phone.initialize(form).status == 204, "\(form)")
            for other in ClientDataFormat.allCases where other != form {
                #expect(try phone.another().initialize(other).status == 403)
                #expect(phone.service.decisions.last?.contains("step=challenge") == true)
            }
            // Of `dsr` the attested key is to be bound first.
            let answer = try phone.bind(try phone.draft(counter: 1))
            #expect(answer.status == (form == .dsr ? 403 : 200))
            if form == .dsr {
                #expect(try phone.bind(try phone.draft(counter: 1, newKey: phone.hardwareKey)).status == 200)
                // It is the hardware key, which was attested once.
                let attestation = try phone.device().attestation
                #expect(attestation?.isCertificateKeyAttested == true && attestation?.attestedAt == nil)
            }
        }
    }

    @Test("a counter binds once, and is what the hardware key signed")
    func counters() throws {
        let phone = try TestPhone()
        _ = try phone.initialize()
        #expect(try phone.bind(try phone.draft(counter: 5)).status == 200)
        let again = try phone.bind(try phone.draft(counter: 5))
        #expect((again.status, again.error) == (403, "invalid_request"))
        #expect(again.content.contains("the counter was used before"))
        var raised = try phone.draft(counter: 6)
        raised.claims["counter"] = "7"
        #expect(try phone.bind(raised).content.contains("hardware_signature does not verify"))
        for wrong in ["0", "-1", "4294967296", "1.5", "\"6\"", "null"] {
            var draft = try phone.draft(counter: 6)
            draft.claims["counter"] = wrong
            let answer = try phone.bind(draft)
            #expect((answer.status, answer.error) == (422, "validation_error"), "\(wrong)")
        }
        #expect(try phone.bind(try phone.draft(counter: 6)).status == 200)
    }

    @Test("the platform is that of the registered device, whatever the token says")
    func platform() throws {
        let phone = try TestPhone()
        _ = try phone.initialize()
        // The form of iOS, which names a device by its key.
        let apple = try phone.service.draft(phone.hardwareKey, counter: 1)
        let answer = try phone.service.bind(apple)
        #expect((answer.status, answer.error) == (400, "bad_request"))
        #expect(answer.content.contains("counter is missing"))
        // An iPhone has no tag by which a token of Android's form would find it.
        let iPhone = try phone.service.keys.generate()
        try phone.service.register(iPhone)
        var android = try phone.draft(counter: 1)
        android.claims["hardware_key_tag"] = quoted(base64URL(try phone.service.keys.hash(iPhone.point)))
        #expect(try phone.bind(android).status == 404)
        var both = try phone.draft(counter: 1)
        both.claims["key_attestation"] = "\"AAAA\""
        #expect(try phone.bind(both).error == "bad_request")
    }

    @Test("a tag is that of one device")
    func tags() throws {
        let phone = try TestPhone()
        #expect(try phone.initialize().status == 204)
        let other = try phone.another()
        other.tag = phone.tag
        let answer = try other.initialize()
        #expect((answer.status, answer.error) == (403, "invalid_request"))
        #expect(answer.content.contains("draw a new one"))
    }

    @Test("a lost answer is repeated: the same attestation gets the same answer until the phone is bound")
    func repetition() throws {
        let phone = try TestPhone()
        let content = try phone.initialization(.nonceAndTag)
        #expect(try phone.service.post("/instance-initialization", content).status == 204)
        #expect(try phone.service.post("/instance-initialization", content).status == 204)
        #expect(phone.service.decisions.last?.contains("what=repeated") == true)
    }

    @Test("a repeated attestation under another tag is refused, also where the client data does not cover the tag")
    func repetitionUnderAnotherTag() throws {
        let phone = try TestPhone { $0.form = .nonce }
        let content = try phone.initialization(.nonce)
        #expect(try phone.service.post("/instance-initialization", content).status == 204)
        let tag = phone.tag
        let other = content.replacing(base64URL(tag), with: base64URL(tag.reversed()))
        #expect(try phone.service.post("/instance-initialization", other).status == 403)
        #expect(try phone.device().attestation?.tag == tag)
    }

    @Test("a key of the app's own with a serial number that is too long is refused, not a fault of the service")
    func longSerial() throws {
        let phone = try TestPhone { $0.demand { $0.allowsAttestKey = true } }
        phone.attestKeySerial = "0x01" + String(repeating: "ff", count: 20)
        let refused = try phone.initialize()
        #expect((refused.status, refused.error) == (422, "validation_error"), "\(refused)")
        #expect(phone.service.decisions.last?.contains("step=certificates") == true)
        phone.attestKeySerial = "0x1f"
        #expect(try phone.initialize().status == 204)
        #expect(try phone.device().attestation?.phone?.serials.contains("1f") == true)
    }

    @Test("a certificate key in a secure element does not lift the hardware key")
    func certificateKeyInStrongBox() throws {
        let phone = try TestPhone { $0.demandsAttestedCertificateKey() }
        _ = try phone.initialize()
        phone.properties.securityLevel = .strongBox
        let nonce = try phone.service.nonce()
        #expect(try phone.bind(try phone.draft(counter: 1, nonce: nonce, attestedWith: nonce)).status == 200)
        #expect(try phone.device().attestation?.phone?.securityLevel == .trustedEnvironment)
        // A later demand is about the hardware key, too.
        let raised = try EnrolmentRules(
            phone.settings { app in
                app.demandsAttestedCertificateKey()
                app.demand { $0.securityLevel = .strongBox }
            }, phone.service.registry.identity, phone.library)
        var subject = EnrolmentSubject()
        let next = try phone.service.nonce()
        let content = try phone.draft(counter: 2, nonce: next, attestedWith: next).content()
        let shown = try raised.binding(content, IssuerKeyRecord(), now: WallClock.seconds, &subject)
        let planned = try raised.planCertificate(now: WallClock.seconds)
        #expect(throws: EnrolmentFault.keyAttestation(.securityLevelTooLow(.trustedEnvironment))) {
            _ = try raised.command(
                shown, planned, of: phone.device(), .permitted, KeyStatusRecord(), now: WallClock.seconds, &subject)
        }
    }

    @Test("the certificate's key is attested where demanded, at each binding, with that binding's nonce")
    func certificateKey() throws {
        let phone = try TestPhone { $0.demandsAttestedCertificateKey() }
        _ = try phone.initialize()
        let without = try phone.bind(try phone.draft(counter: 1))
        #expect(without.content.contains("mtls_key_attestation is missing"))
        let nonce = try phone.service.nonce()
        let stale = try phone.draft(counter: 1, nonce: nonce, attestedWith: try phone.service.nonce())
        #expect(try phone.bind(stale).status == 403)
        #expect(phone.service.decisions.last?.contains("step=challenge") == true)
        let foreign = try phone.draft(
            counter: 1, nonce: nonce, attestedWith: nonce, attested: try PrivateKey.generateP256(phone.library))
        #expect(try phone.bind(foreign).content.contains("of another key than cnf.jwk"))
        #expect(try phone.bind(try phone.draft(counter: 1, nonce: nonce, attestedWith: nonce)).status == 200)
        // A rotation states what the phone is now.
        let serials = try phone.device().attestation?.phone?.serials ?? []
        phone.properties.patchLevel = 202_611
        let next = try phone.service.nonce()
        #expect(try phone.bind(try phone.draft(counter: 2, nonce: next, attestedWith: next)).status == 200)
        let attested = try #require(try phone.device().attestation?.phone)
        #expect(attested.patchLevel == 202_611)
        let details = try phone.device()
        #expect(details.attestation?.isCertificateKeyAttested == true)
        #expect(details.attestation?.attestedAt == details.bindings.last?.createdAt)
        #expect(details.attestation?.systemVersion == SystemVersion("16"))
        #expect(Set(attested.serials).isSuperset(of: serials))
        #expect(try phone.bind(try phone.draft(counter: 3)).status == 400)
    }

    @Test("demands that were raised later hold at the next binding")
    func raised() throws {
        let phone = try TestPhone()
        _ = try phone.initialize()
        let details = try phone.device()
        let content = try phone.draft(counter: 1).content()
        func fault(_ change: (inout AndroidApp) -> Void) throws -> EnrolmentFault? {
            let rules = try EnrolmentRules(
                phone.settings { $0.demand(change) }, phone.service.registry.identity, phone.library)
            var subject = EnrolmentSubject()
            do throws(EnrolmentFault) {
                let shown = try rules.binding(content, IssuerKeyRecord(), now: WallClock.seconds, &subject)
                let planned = try rules.planCertificate(now: WallClock.seconds)
                _ = try rules.command(
                    shown, planned, of: details, .permitted, KeyStatusRecord(), now: WallClock.seconds, &subject)
                return nil
            } catch {
                return error
            }
        }
        #expect(try fault { _ in } == nil)
        let tooLow = EnrolmentFault.keyAttestation(.securityLevelTooLow(.trustedEnvironment))
        #expect(try fault { $0.securityLevel = .strongBox } == tooLow)
        #expect(try fault { $0.minimumPatchLevel = 202_611 } == .keyAttestation(.patchLevelTooOld(.system)))
        #expect(try fault { $0.minimumPatchLevel = 202_610 } == nil)
        #expect(try fault { $0.minimumVersion = 2 } == .keyAttestation(.versionTooLow(1)))
    }

    @Test("without a list of revoked keys, or with an old one, a phone is to come again later")
    func statusList() throws {
        let phone = try TestPhone()
        phone.service.shared.keyStatus.environments = [.simulator]
        let missing = try phone.initialize()
        #expect((missing.status, missing.error) == (503, "temporarily_unavailable"))
        #expect(missing.has("Retry-After: 60"))
        phone.service.shared.keyStatus.staleAfter = 10
        let list = AttestationStatusList(serials: ["ff"])
        phone.service.shared.keyStatus.kept = .init(list: list, confirmedAt: WallClock.seconds - 20)
        #expect(try phone.initialize().status == 503)
        phone.service.shared.keyStatus.kept = .init(list: list, confirmedAt: WallClock.seconds)
        #expect(try phone.initialize().status == 204)
        // Revoked since: by the decimal form of a serial number, too.
        let serial = try #require(try phone.device().attestation?.phone?.serials.first)
        let decimal = try #require(AttestationSerial(hexadecimal: serial)?.decimal)
        for text in [serial, decimal] {
            phone.service.shared.keyStatus.kept = .init(
                list: AttestationStatusList(serials: [text]), confirmedAt: WallClock.seconds)
            let answer = try phone.bind(try phone.draft(counter: 1))
            #expect((answer.status, answer.error) == (403, "integrity_check_error"))
        }
        let other = try phone.another()
        #expect(try other.initialize().error == "integrity_check_error")
        #expect(phone.service.decisions.last?.contains("step=revocation") == true)
        phone.service.shared.keyStatus.kept = nil
        #expect(try phone.bind(try phone.draft(counter: 1)).status == 503)
    }

    @Test("another app, another root, a long list and no certificates are refused by their step, and nothing is stored")
    func refused() throws {
        let phone = try TestPhone()
        phone.properties.package = "org.example.other"
        let other = try phone.initialize()
        #expect((other.status, other.error) == (403, "invalid_request"))
        #expect(phone.service.decisions.last?.contains("step=application") == true)
        let stranger = try TestPhone()
        #expect(try phone.service.post("/instance-initialization", stranger.initialization(.nonceAndTag)).status == 403)
        let foreign = try TestPhone(service: phone.service)
        #expect(try foreign.initialize().status == 403)
        #expect(phone.service.decisions.last?.contains("step=root") == true)
        for (chain, step) in [("[]", "certificates"), ("[\"AAAA\",\"AAAA\"]", "certificates")] {
            let content = try phone.initialization(.nonceAndTag, chain: chain)
            #expect(try phone.service.post("/instance-initialization", content).status == 422)
            #expect(phone.service.decisions.last?.contains("step=\(step)") == true)
        }
        guard case .devices(let devices) = try phone.service.perform(.list(after: nil, limit: 10)) else { return }
        #expect(devices.isEmpty)
    }
}

/// A simulated phone that enrols with a service of the test.
private final class TestPhone {
    let service: TestService
    let library: LibraryContext
    let hardwareKey: P256SigningKey
    private let privateKey: PrivateKey
    /// The keys of the certificates above the leaf.
    private let authority: [PrivateKey]
    var tag: [UInt8]
    var properties = AndroidPhone(package: TestPhone.package)
    /// The serial number of a key of the app's own, which attests the others. Nil for no such key.
    var attestKeySerial: String?

    private static let package = "org.example.android"
    private static let validity: ClosedRange<Int64> = 1_600_000_000...4_000_000_000

    /// Creates a phone of an app with its own root, and a service for it.
    convenience init(_ change: (inout EnrolmentSettings.App) -> Void = { _ in }) throws {
        let library = try LibraryContext()
        let authority = try (0..<3).map { _ in try PrivateKey.generateP256(library) }
        let service = try TestService { settings in
            settings.apps.append(try Self.app(authority, library, change))
        }
        try self.init(service, authority, library)
    }

    /// Creates a phone below a root that the service does not know.
    convenience init(service: TestService) throws {
        let library = try LibraryContext()
        try self.init(service, (0..<3).map { _ in try PrivateKey.generateP256(library) }, library)
    }

    /// - Parameter library: The context of the authority's keys, which do not outlive it.
    private init(_ service: TestService, _ authority: [PrivateKey], _ library: LibraryContext) throws {
        self.service = service
        self.authority = authority
        self.library = library
        privateKey = try PrivateKey.generateP256(library)
        hardwareKey = try P256SigningKey(privateKey, library)
        tag = Array(try service.keys.hash(hardwareKey.point).prefix(20))
    }

    /// Returns another phone below the same root.
    func another() throws -> TestPhone { try TestPhone(service, authority, library) }

    func settings(_ change: (inout EnrolmentSettings.App) -> Void) throws -> EnrolmentSettings {
        var settings = try TestService.settings(library)
        settings.apps.append(try Self.app(authority, library, change))
        return settings
    }

    private static func app(
        _ authority: [PrivateKey], _ library: LibraryContext, _ change: (inout EnrolmentSettings.App) -> Void
    ) throws -> EnrolmentSettings.App {
        guard let id = AppID("android:\(package)") else { throw EnrolmentStartError("the test's own app") }
        let attested = AndroidApp(
            package: package, environment: .simulator, signingCertificates: [AndroidPhone.signingCertificate])
        let root = try chain(of: authority[0], [], AndroidPhone(package: package), authority).certificate(3, library)
        var app = EnrolmentSettings.App(
            id: id, kind: .android(attested, attestsCertificateKey: false), simulatorRoot: try root.pem(),
            counters: .strict)
        change(&app)
        return app
    }

    private static func chain(
        of key: PrivateKey, _ challenge: [UInt8], _ phone: AndroidPhone, _ authority: [PrivateKey]
    ) -> KeyAttestationChain {
        let description = KeyDescriptionForm(of: phone, challenge: challenge, created: 1_790_000_000_000)
        var chain = KeyAttestationChain(
            description, provisioning: .factory, keys: [key] + authority, validity: validity)
        for position in 1..<chain.links.count { chain.links[position].serial = 1_000 + UInt64(position) }
        return chain
    }

    /// Returns the attestation of a key in JSON.
    private func attestation(of key: PrivateKey, _ challenge: [UInt8]) throws -> String {
        var chain = Self.chain(of: key, challenge, properties, authority)
        if let attestKeySerial {
            var attestKey = KeyDescriptionForm(of: properties, challenge: challenge, created: 1_790_000_000_000)
            attestKey.setHardware(1, KeyDescriptionForm.numbers([7]))
            var link = chain.links[0]
            link.key = try PrivateKey.generateP256(library)
            link.name = [("CN", "Attest key")]
            link.extensions.append(.init(KeyDescription.identifier, attestKey.der))
            link.unusualSerial = attestKeySerial
            chain.links.insert(link, at: 1)
        }
        let certificates = try chain.certificates(library)
        return "[" + certificates.map { quoted(base64URL($0)) }.joined(separator: ",") + "]"
    }

    /// Returns the content of an initialization with a fresh nonce.
    func initialization(_ form: ClientDataFormat, chain: String? = nil) throws -> String {
        let nonce = try service.nonce()
        let tag = base64URL(tag)
        let bytes = try #require(IssuedNonce(Array(nonce.utf8))).bytes
        let challenge: [UInt8] =
            switch form {
            case .nonceAndTag: try service.keys.hash(Array((nonce + tag).utf8))
            case .nonce: Array(nonce.utf8)
            case .dsr: try service.keys.hash(bytes + Array("KEYPAIR_MTLS".utf8))
            }
        return Draft(members: [
            ("nonce", quoted(nonce)), ("hardware_key_tag", quoted(tag)),
            ("key_attestation", try chain ?? attestation(of: privateKey, challenge)),
        ]).text
    }

    func initialize(_ form: ClientDataFormat = .nonceAndTag) throws -> TestService.Answer {
        try service.post("/instance-initialization", initialization(form))
    }

    func device() throws -> DeviceDetails { try service.device(hardwareKey) }

    /// Returns a valid binding of a new key.
    ///
    /// - Parameters:
    ///   - attestedWith: The nonce in the attestation of the new key. Nil for no attestation.
    ///   - attested: The attested key. Nil for the new one.
    func draft(
        counter: Int, nonce: String? = nil, newKey: P256SigningKey? = nil, attestedWith: String? = nil,
        attested: PrivateKey? = nil
    ) throws -> KeyBindingDraft {
        let nonce = try nonce ?? service.nonce()
        let newPrivateKey = try PrivateKey.generateP256(library)
        var draft = try KeyBindingDraft(
            service.keys, hardwareKey: hardwareKey, newKey: newKey ?? P256SigningKey(newPrivateKey, library),
            nonce: nonce, now: WallClock.seconds)
        let clientData = #"{"nonce":"\#(nonce)","jwk_thumbprint":"\#(draft.thumbprint)","counter":\#(counter)}"#
        let digest = try library.sha256(of: Array(clientData.utf8).span)
        let tag = base64URL(tag)
        draft.claims["hardware_key_tag"] = quoted(tag)
        draft.claims["hardware_signature"] = quoted(base64URL(try hardwareKey.sign(digest: digest)))
        draft.claims["key_attestation"] = nil
        draft.claims["counter"] = "\(counter)"
        if let attestedWith {
            let challenge = try service.keys.hash(Array((attestedWith + tag).utf8))
            draft.claims["mtls_key_attestation"] = try attestation(of: attested ?? newPrivateKey, challenge)
        }
        return draft
    }

    func bind(_ draft: KeyBindingDraft) throws -> TestService.Answer { try service.bind(draft) }
}

extension EnrolmentSettings.App {
    /// Changes what is demanded of Android phones.
    fileprivate mutating func demand(_ change: (inout AndroidApp) -> Void) {
        guard case .android(var app, let attestsCertificateKey, _) = kind else { return }
        change(&app)
        kind = .android(app, attestsCertificateKey: attestsCertificateKey)
    }

    fileprivate mutating func demandsAttestedCertificateKey() {
        guard case .android(let app, _, _) = kind else { return }
        kind = .android(app, attestsCertificateKey: true)
    }
}
