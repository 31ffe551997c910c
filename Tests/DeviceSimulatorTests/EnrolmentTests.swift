import Attestation
import Challenges
import Cryptography
import DeviceSimulator
import Encoding
import Enrolment
import Testing
import TrustClient
import Vocabulary

/// Verifies the client's bytes with the service's verifiers.
@Suite("Enrolment of a simulated phone")
struct EnrolmentTests {
    private let temporary: TemporaryDirectory
    private let library: LibraryContext
    private var authority: String { temporary.path + "/authority" }

    init() throws {
        temporary = try TemporaryDirectory()
        library = try LibraryContext()
        _ = try SimulatorAuthority.create(in: temporary.path + "/authority")
    }

    private func phone(_ name: String = "phone") throws -> TestPhone {
        let device = try DeviceDirectory.create(temporary.path + "/" + name, appID: Sample.appID, library)
        return TestPhone(device: device, authority: authority, library: library)
    }

    private func service(
        _ form: Enrolment.ClientDataFormat = .nonceAndTag, admission: AdmissionTokenVerifier? = nil,
        platforms: Set<AttestedPlatform> = [.iOS, .unstated]
    ) throws -> TestService {
        try TestService(simulator: authority, form: form, admission: admission, platforms: platforms, library)
    }

    /// Returns the certificate after checking that it is the right one for the phone.
    private func certificate(
        _ ending: TestPhone.Ending, _ phone: TestPhone, _ service: TestService
    ) throws -> EnrolledCertificate {
        guard case .finished(let certificate) = ending else {
            throw SimulatorError("not enrolled: \(ending), \(String(describing: service.fault))")
        }
        #expect(certificate.chain.dropFirst() == [try service.authority.der()])
        let der = certificate.chain[0]
        let leaf = try Certificate(der: der.span, library)
        #expect(leaf.publicKey?.uncompressedPoint == (try phone.device.keyToBind().point))
        #expect(leaf.notAfter == certificate.expiresAt)
        return certificate
    }

    @Test(
        "a phone enrols with one request to each endpoint, and two nonces",
        arguments: AssertionForm.allCases)
    func enrols(_ form: AssertionForm) throws {
        var phone = try phone()
        phone.assertionForm = form
        let service = try service(platforms: [.iOS, .macOS, .unstated])
        _ = try certificate(phone.enrol(service), phone, service)
        #expect(service.requests.map(\.endpoint) == [.nonce, .initialization, .nonce, .keyBinding])
        #expect(try phone.device.enrolmentRecord()?.isBound == true)
        #expect(try phone.device.counter.last() == 1)
    }

    @Test(
        "a form of client data is accepted only by a service configured for it",
        arguments: TrustClient.ClientDataForm.allCases)
    func clientData(_ form: TrustClient.ClientDataForm) throws {
        for other in Enrolment.ClientDataFormat.allCases {
            var phone = try phone("\(form)-\(other)")
            phone.clientDataForm = form
            let service = try service(other)
            let ending = try phone.enrol(service)
            if other.rawValue == form.rawValue {
                _ = try certificate(ending, phone, service)
            } else {
                guard case .failed(.refused(_, .giveUp)) = ending else {
                    Issue.record("\(form) was taken for \(other): \(ending)")
                    continue
                }
            }
        }
    }

    // MARK: - Interruptions

    @Test(
        "an app that stops or loses an answer needs no second hardware key or attestation",
        arguments: [
            TestPhone.Cut.before(.nonce), .after(.nonce), .before(.initialization), .after(.initialization),
            .before(.keyBinding), .after(.keyBinding),
        ], TrustClient.ClientDataForm.allCases)
    func goesOn(_ cut: TestPhone.Cut, _ form: TrustClient.ClientDataForm) throws {
        var phone = try phone()
        phone.clientDataForm = form
        let service = try service(Enrolment.ClientDataFormat(rawValue: form.rawValue) ?? .nonce)
        #expect(try phone.enrol(service, cut: cut) == .cutOff)
        _ = try certificate(phone.enrol(service), phone, service)
        #expect(service.instances.count == 1 && service.instances.first?.value.boundKeys.count == 1)
        let initializations = service.requests.filter { $0.endpoint == .initialization }
        #expect(Set(initializations.map { $0.content ?? [] }).count == 1, "the same bytes, however often")
    }

    @Test("a lost attestation needs a new hardware key: a key can be attested once")
    func attestationLost() throws {
        let phone = try phone()
        let service = try service()
        let first = try phone.attestor.generateKey()
        #expect(try phone.enrol(service, cut: .afterAttesting) == .cutOff)
        _ = try certificate(phone.enrol(service), phone, service)
        #expect(service.instances[first] == nil && service.instances.count == 1)
    }

    @Test(
        "the key binding completes after the initialization's answer was lost and its nonce expired")
    func answerLostForLong() throws {
        let phone = try phone()
        let service = try service()
        #expect(try phone.enrol(service, cut: .after(.initialization)) == .cutOff)
        service.endNonces()
        _ = try certificate(phone.enrol(service), phone, service)
        #expect(service.instances.count == 1)
        #expect(service.requests.suffix(3).map(\.endpoint) == [.initialization, .nonce, .keyBinding])
    }

    @Test("a new hardware key is attested when the initialization never arrived and its nonce expired")
    func requestLostForLong() throws {
        let phone = try phone()
        let service = try service()
        #expect(try phone.enrol(service, cut: .before(.initialization)) == .cutOff)
        let lost = try phone.device.enrolmentRecord()?.hardwareKeyID
        service.endNonces()
        _ = try certificate(phone.enrol(service), phone, service)
        #expect(service.instances.count == 1 && service.instances.first?.key != lost)
    }

    @Test("phones enrol again after the registry is lost")
    func registryLost() throws {
        let phone = try phone()
        let service = try service()
        _ = try certificate(phone.enrol(service), phone, service)
        service.instances = [:]
        _ = try certificate(phone.enrol(service), phone, service)
        #expect(service.instances.count == 1)
    }

    @Test(
        "a phone that loses its hardware key binds a new certificate key: the other stays bound to the lost one",
        arguments: [TestPhone.Cut?.none, .after(.keyBinding)])
    func hardwareKeyLost(_ cut: TestPhone.Cut?) throws {
        let phone = try phone()
        let service = try service()
        // Whether or not the phone knows that its certificate key is bound.
        _ = try phone.enrol(service, cut: cut)
        let old = try phone.device.keyToBind().point
        for round in 1...2 {
            _ = try phone.attestor.generateKey()
            _ = try certificate(phone.enrol(service), phone, service)
            #expect(service.instances.count == round + 1)
        }
        #expect(try phone.device.keyToBind().point != old)
        let bound = service.instances.values.flatMap(\.boundKeys)
        #expect(bound.count == 3 && Set(bound).count == 3)
    }

    @Test("a clock wrong by hours is corrected from the service's answers", arguments: [-7_200, 90, 86_400])
    func clock(_ error: Int64) throws {
        var phone = try phone()
        phone.clockError = error
        let service = try service()
        _ = try certificate(phone.enrol(service), phone, service)
        #expect(service.requests.count == 4, "without a refusal")
    }

    // MARK: - Later enrolments

    @Test("a certificate is renewed with the same key and rotated to a new one")
    func renewalAndRotation() throws {
        let phone = try phone()
        let service = try service()
        let first = try certificate(phone.enrol(service), phone, service)
        let second = try certificate(phone.enrol(service), phone, service)
        #expect(first.chain[0] != second.chain[0])
        let old = try phone.device.keyToBind().point
        try phone.device.beginRotation(library)
        #expect(try phone.device.keyToBind().point != old)
        let third = try certificate(phone.enrol(service), phone, service)
        #expect(!phone.device.isRotating && third.chain[0] != second.chain[0])
        #expect(service.instances.first?.value.boundKeys == [old, try phone.device.keyToBind().point])
    }

    @Test("a rotation whose answer is lost continues with the new key: the old one may have ended")
    func rotationLost() throws {
        let phone = try phone()
        let service = try service()
        _ = try certificate(phone.enrol(service), phone, service)
        try phone.device.beginRotation(library)
        let new = try phone.device.keyToBind().point
        #expect(try phone.enrol(service, cut: .after(.keyBinding)) == .cutOff)
        #expect(phone.device.isRotating)
        _ = try certificate(phone.enrol(service), phone, service)
        #expect(try phone.device.keyToBind().point == new)
        #expect(service.instances.first?.value.boundKeys.count == 2)
    }

    @Test("in the form dsr an attestation is valid for its certificate key alone")
    func dsrKeyChanged() throws {
        var phone = try phone()
        phone.clientDataForm = .dsr
        let service = try service(.dsr)
        #expect(try phone.enrol(service, cut: .before(.keyBinding)) == .cutOff)
        let lost = try phone.device.enrolmentRecord()?.hardwareKeyID
        try phone.device.beginRotation(library)
        _ = try certificate(phone.enrol(service), phone, service)
        #expect(try phone.device.enrolmentRecord()?.hardwareKeyID != lost)
    }

    @Test("the key binding carries the admission token")
    func admission() throws {
        let issuer = try P256SigningKey(PrivateKey.generateP256(library), library)
        let audience = try #require(ProviderURL(TestService.url))
        let secret = [UInt8](repeating: 1, count: 32)
        let verifier = try AdmissionTokenVerifier(
            issuer: "https://login.example", keys: .listed([issuer.point]), audience: audience, longestLife: 600,
            pseudonymKey: AuthenticationKey(secret.span, library), library)
        let service = try service(admission: verifier)
        let phone = try phone()
        _ = try certificate(
            phone.enrol(service, admissionToken: { try token(by: issuer, for: $0, at: service.now) }), phone, service)
        let other = try self.phone("other")
        guard case .failed(.refused(let refusal, .giveUp)) = try other.enrol(service) else {
            Issue.record("let in without a token")
            return
        }
        #expect(refusal.code == .badRequest)
        #expect(try other.enrol(service, admissionToken: { _ in "no token" }) == .failed(.admissionTokenMalformed))
    }

    private func token(by issuer: P256SigningKey, for point: [UInt8], at now: Int64) throws -> String {
        func encoded(_ bytes: [UInt8]) -> String { Base64URL.encode(bytes.span) }
        func hash(_ text: String) throws -> Digest256 {
            let bytes = Array(text.utf8)
            return try library.sha256(of: bytes.span)
        }
        let x = encoded(Array(point[1..<33]))
        let y = encoded(Array(point[33...]))
        let thumbprint = encoded(try hash(#"{"crv":"P-256","kty":"EC","x":"\#(x)","y":"\#(y)"}"#).bytes)
        let claims =
            #"{"iss":"https://login.example","aud":"\#(TestService.url)","exp":\#(now + 300),"jti":"1","sub":"me","#
            + #""cnf":{"jkt":"\#(thumbprint)"}}"#
        let input = encoded(Array(#"{"alg":"ES256"}"#.utf8)) + "." + encoded(Array(claims.utf8))
        let der = try issuer.sign(digest: hash(input))
        let length = Int(der[3])
        let signature = [der[4..<(4 + length)], der[(6 + length)...]].flatMap { integer in
            [UInt8](repeating: 0, count: max(0, 32 - integer.count)) + integer.suffix(32)
        }
        return input + "." + encoded(signature)
    }
}

/// A phone whose app may end at any moment. Only its directory survives.
struct TestPhone {
    /// The result of one run of the app.
    enum Ending: Equatable {
        case finished(EnrolledCertificate)
        case failed(EnrolmentFailure)
        /// The app was killed, or no answer arrived.
        case cutOff
    }

    /// The point at which the app is killed.
    enum Cut: Equatable {
        /// Before the request is sent.
        case before(EnrolmentRequest.Endpoint)
        /// After the request has arrived, so that its answer is lost.
        case after(EnrolmentRequest.Endpoint)
        case afterAttesting
    }

    let device: DeviceDirectory
    let authority: String
    let library: LibraryContext
    var assertionForm = AssertionForm.iOS14
    var clientDataForm = TrustClient.ClientDataForm.nonceAndTag
    /// The phone's clock minus the service's clock, in seconds.
    var clockError: Int64 = 0

    var attestor: SimulatedAttestor { SimulatedAttestor(device, authority: authority, form: assertionForm) }

    /// Runs the app once.
    func enrol(
        _ service: TestService, cut: Cut? = nil, admissionToken: (([UInt8]) throws -> String)? = nil
    ) throws -> Ending {
        var key = try device.keyToBind()
        let record = try device.enrolmentRecord() ?? EnrolmentRecord(service: TestService.service)
        var exchange = EnrolmentExchange(
            record, point: key.point, form: clientDataForm, admissionToken: try admissionToken?(key.point))
        var action = exchange.begin()
        while true {
            if exchange.record != record { try device.keep(exchange.record) }
            do {
                switch action {
                case .makeKey: action = exchange.keyMade(try attestor.generateKey())
                case .provideKey:
                    try device.replaceKeyToBind(library)
                    key = try device.keyToBind()
                    action = exchange.keyProvided(key.point, admissionToken: try admissionToken?(key.point))
                case .attest(let key, let hash):
                    let attestation = try attestor.attestation(of: key, clientDataHash: hash)
                    if cut == .afterAttesting { return .cutOff }
                    action = exchange.attested(attestation)
                case .assert(let key, let data):
                    action = exchange.asserted(
                        try attestor.assertion(by: key, clientDataHash: data.hash), now: service.now + clockError)
                case .sign(let message): action = exchange.signed(try key.signature(over: message))
                case .send(let request):
                    if cut == .before(request.endpoint) { return .cutOff }
                    let answer = try service.answer(request)
                    if cut == .after(request.endpoint) { return .cutOff }
                    action = exchange.answered(answer, now: service.now + clockError)
                case .finish(let certificate):
                    try device.keep(certificate, library)
                    return .finished(certificate)
                case .fail(let failure): return .failed(failure)
                }
            } catch let fault as AttestorFault {
                action = exchange.attestorFailed(fault)
            }
        }
    }
}
