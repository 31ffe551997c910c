import Attestation
import Challenges
import Cryptography
import DeviceSimulator
import Encoding
import Enrolment
import Foundation
import TrustClient
import Vocabulary

/// An enrolment service that uses the gateway's verifiers, with a dictionary as its registry.
final class TestService {
    static let url = "https://enrol.example.org"

    struct Instance {
        let attestation: [UInt8]
        let point: [UInt8]
        var attestedKey: [UInt8]?
        var boundKeys: [[UInt8]] = []
    }

    let library: LibraryContext
    let form: Enrolment.ClientDataFormat
    /// The valid nonces. They expire only on request.
    private(set) var nonces: Set<String> = []
    var instances: [KeyID: Instance] = [:]
    /// Answers that replace its own, in order.
    var refusals: [EnrolmentRequest.Endpoint: [EnrolmentAnswer]] = [:]
    private(set) var requests: [EnrolmentRequest] = []
    /// The reason of the last refusal.
    private(set) var fault: EnrolmentFault?

    private let attestations: AttestationVerifier
    private let bindings: KeyBindingVerifier
    private let demandsToken: Bool
    private let issue: ClientCertificateIssue
    let authority: Certificate

    /// Creates a service.
    ///
    /// - Parameter simulator: The directory of the authority that attests.
    init(
        simulator: String, form: Enrolment.ClientDataFormat = .nonceAndTag, admission: AdmissionTokenVerifier? = nil,
        platforms: Set<AttestedPlatform> = [.iOS, .unstated], _ library: LibraryContext
    ) throws {
        self.library = library
        self.form = form
        demandsToken = admission != nil
        let pem = try Data(contentsOf: URL(fileURLWithPath: simulator + "/simulator-root.pem"))
        let root = try Certificate.all(inPEM: Array(pem), library)[0]
        attestations = try AttestationVerifier(
            apps: [AttestedApp(id: Sample.appID.description, environment: .simulator, platforms: platforms)],
            roots: AttestationVerifier.Roots(
                apple: AppleRoots.appAttestation(library), simulator: TrustedRoot(root, library),
                receipts: AppleRoots.receipts(library)), library)
        guard let provider = ProviderURL(Self.url) else { preconditionFailure("this is a URL") }
        bindings = KeyBindingVerifier(provider: provider, admission: admission, library)
        let issuer = try CertificateIssuer.selfSigned(
            commonName: "Test GMS CA", lifetime: 86_400, key: PrivateKey.generateP256(library), library)
        issue = try ClientCertificateIssue(issuer, lifetime: 3_600, library)
        authority = issuer.certificate
    }

    static var service: TrustClient.EnrolmentServiceAddress {
        guard let service = TrustClient.EnrolmentServiceAddress(url: url) else { preconditionFailure("this is a URL") }
        return service
    }

    /// The service's clock.
    var now: Int64 { Int64(Date().timeIntervalSince1970) }

    var date: String {
        let formatter = DateFormatter()
        formatter.locale = Locale(identifier: "en_US_POSIX")
        formatter.timeZone = TimeZone(identifier: "GMT")
        formatter.dateFormat = "EEE, dd MMM yyyy HH:mm:ss 'GMT'"
        return formatter.string(from: Date(timeIntervalSince1970: TimeInterval(now)))
    }

    /// Makes all issued nonces invalid.
    func endNonces() { nonces = [] }

    func answer(_ request: EnrolmentRequest) throws -> EnrolmentAnswer {
        requests.append(request)
        if var waiting = refusals[request.endpoint], !waiting.isEmpty {
            let answer = waiting.removeFirst()
            refusals[request.endpoint] = waiting
            return answer
        }
        do throws(EnrolmentFault) {
            return answer(try response(request))
        } catch {
            fault = error
            return answer(EnrolmentResponse.refusal(error))
        }
    }

    private func answer(_ response: EnrolmentResponse) -> EnrolmentAnswer {
        EnrolmentAnswer(
            status: Int(response.status), date: date,
            retryAfter: response.fields.first { $0.name == "Retry-After" }?.value, content: response.content)
    }

    private func response(_ request: EnrolmentRequest) throws(EnrolmentFault) -> EnrolmentResponse {
        switch request.endpoint {
        case .nonce:
            let bytes = try EnrolmentFault.testing { () throws(CryptographyError) in try library.randomBytes(32) }
            let text = Base64URL.encode(bytes.span)
            nonces.insert(text)
            guard let nonce = Enrolment.IssuedNonce(Array(text.utf8)) else { throw .nonceRefused }
            return .nonce(nonce)
        case .initialization: return try initialize(request.content ?? [])
        case .keyBinding: return try bind(request.content ?? [])
        case .challenge, .attestation, .instances, .revocation: throw .instanceUnknown
        }
    }

    private func initialize(_ content: [UInt8]) throws(EnrolmentFault) -> EnrolmentResponse {
        let request = try InstanceInitialization(content, library)
        guard case .apple(let attestation, let keyID) = request.attestation else { throw .appRefused }
        if let known = instances[keyID] {
            guard known.attestation == attestation, known.boundKeys.isEmpty, isGiven(request.nonce) else {
                throw .instanceKnown
            }
            return .initialized
        }
        guard isGiven(request.nonce) else { throw .nonceRefused }
        guard case .apple(let evidence) = try request.evidence(form, library) else { throw .appRefused }
        let verified: VerifiedAttestation
        do throws(AttestationFault) {
            verified = try attestations.verify(evidence, at: now)
        } catch {
            throw .attestation(error)
        }
        instances[verified.keyID] = Instance(
            attestation: attestation, point: verified.publicKey, attestedKey: request.mtlsPublicKey)
        return .initialized
    }

    private func bind(_ content: [UInt8]) throws(EnrolmentFault) -> EnrolmentResponse {
        let binding = try bindings.verify(content, now: now)
        guard isGiven(binding.nonce) else { throw .nonceRefused }
        guard case .keyID(let keyID) = binding.hardwareKey, let instance = instances[keyID] else {
            throw .instanceUnknown
        }
        // A registered instance needs no token.
        if demandsToken, instance.boundKeys.isEmpty, binding.admission == nil { throw .memberMissing(.admissionToken) }
        let appID = Array(Sample.appID.description.utf8)
        let hash = try EnrolmentFault.testing { () throws(CryptographyError) in try library.sha256(of: appID.span) }
        let key = try EnrolmentFault.testing { () throws(CryptographyError) in
            try P256VerificationKey(point: instance.point.span, library)
        }
        _ = try binding.verifyAssertion(key: key, rpIDHash: hash.span, library)
        if instance.boundKeys.isEmpty, let attested = instance.attestedKey, attested != binding.point {
            throw .keyRefused
        }
        guard !instance.boundKeys.dropLast().contains(binding.point) else { throw .keyRefused }
        let isForeign = instances.contains { $0.key != keyID && $0.value.boundKeys.contains(binding.point) }
        guard !isForeign else { throw .keyRefused }
        nonces.remove(String(decoding: binding.nonce.text, as: UTF8.self))
        if !instance.boundKeys.contains(binding.point) {
            instances[keyID]?.boundKeys.append(binding.point)
        }
        return .bound(
            try EnrolmentFault.testing { () throws(CryptographyError) in
                try issue.issue(issue.plan(now: now), forKey: binding.point, device: keyID)
            })
    }

    private func isGiven(_ nonce: Enrolment.IssuedNonce) -> Bool {
        nonces.contains(String(decoding: nonce.text, as: UTF8.self))
    }
}

extension EnrolmentFault {
    fileprivate static func testing<Result>(
        _ compute: () throws(CryptographyError) -> Result
    ) throws(EnrolmentFault) -> Result {
        do throws(CryptographyError) { return try compute() } catch { throw .checkFailed(error) }
    }
}
