public import Attestation
public import Cryptography
public import Encoding
package import Gateway
internal import HTTP
internal import Registry
public import Vocabulary

/// A refusal of an enrolment request, with one case for each check. `EnrolmentError` has a row for each.
public enum EnrolmentFault: Error, Equatable, Sendable {
    // Content.
    /// The content is not a JSON object of the required form.
    case contentMalformed(JSONFault)
    case memberMissing(RequestMember)
    case memberUnknown
    /// A value is valid JSON, but malformed.
    case valueFormat(RequestMember)
    // Key-binding token.
    /// The token is not a strict JWT.
    case tokenMalformed
    /// A member of the token's header or claims is unknown or repeated.
    case tokenMembers
    case tokenAlgorithm
    case tokenType
    /// `cnf.jwk` is not a P-256 public key in the required form.
    case tokenKey
    /// `kid` is not the thumbprint of `cnf.jwk`.
    case tokenKeyID
    case tokenAudience
    case tokenIssuer
    case tokenIssuedAt
    case tokenExpiry
    case tokenSignature
    case admission(AdmissionFault)
    // Hardware key.
    case attestation(AttestationFault)
    case keyAttestation(KeyAttestationFault)
    /// The token of Google Play is refused.
    case integrity(IntegrityFault)
    /// The attested key is not the one to be bound.
    case certificateKeyMismatch
    /// A certificate that vouches for the hardware key was revoked after its attestation.
    case attestationRevoked
    /// The signature of an Android phone's hardware key is invalid.
    case hardwareSignature
    case assertion(AssertionFault)
    /// A valid assertion states something about the app that is not permitted.
    case extensions(ExtensionFault)
    /// The assertion lacks an extension that an earlier assertion of the key had.
    case extensionWithheld
    // State in the registry.
    /// The nonce is from another issuer, expired or used.
    case nonceRefused
    /// The nonce is one of this service, and has expired.
    case nonceExpired
    /// The hardware key is registered, and the request does not repeat its initialization.
    case instanceKnown
    /// Another device has the tag of an Android app.
    case tagTaken
    /// The app has as many devices for development as it may have.
    case developmentDevicesExhausted
    case instanceUnknown
    case instanceRevoked
    /// The instance to be revoked is another person's.
    case instanceOfAnother
    /// The device has to renew its key with its own certificate.
    case renewalElsewhere
    /// The device of the certificate, or its proof, is denied as by the gateway.
    ///
    /// - component: What the proof does not cover.
    case denied(Denial, detail: String?, component: String?)
    /// The assertion's counter was used before.
    case counterSpent
    /// The assertion's counter is further behind than the app's mode allows.
    case counterLate
    /// The new key belongs or belonged to another device, or is not the one in the attestation.
    case keyRefused
    /// The device has bound as many keys as permitted.
    case keysExhausted
    /// An operator has not yet approved the device.
    case approvalPending
    /// The device's app is not configured, or for another environment.
    case appRefused
    /// The receipt's risk metric is above the app's limit.
    case riskTooHigh
    /// The system version in the attestation is below the app's minimum, or absent although required.
    case systemOutdated
    case storeUnavailable
    /// The statement for a federation has expired.
    case statementExpired
    /// A rule of the reference system.
    case dsr(DSRFault)
    /// The check failed to run. This is the service's fault.
    case checkFailed(CryptographyError)
}

extension EnrolmentFault {
    /// The row of the table with the answer.
    public var error: EnrolmentError {
        switch self {
        case .contentMalformed, .memberMissing, .memberUnknown, .tokenMalformed, .tokenMembers: .badRequest
        case .valueFormat: .validation
        case .tokenAlgorithm, .tokenType, .tokenKey, .tokenKeyID, .tokenAudience, .tokenIssuer, .tokenIssuedAt,
            .tokenExpiry, .tokenSignature:
            .invalidRequest
        case .admission(.checkFailed): .server
        case .admission(.keysUnavailable), .admission(.keyNotFetched): .temporarilyUnavailable
        case .admission: .invalidRequest
        case .attestation(let fault): fault.enrolmentError
        case .keyAttestation(let fault): fault.enrolmentError
        case .integrity(let fault): fault.enrolmentError
        case .certificateKeyMismatch, .hardwareSignature: .invalidRequest
        case .assertion(let fault): fault.enrolmentError
        case .dsr(let fault): fault.error
        case .nonceRefused, .nonceExpired, .instanceKnown, .tagTaken, .developmentDevicesExhausted, .instanceRevoked,
            .counterSpent,
            .counterLate, .keyRefused,
            .keysExhausted, .approvalPending, .appRefused:
            .invalidRequest
        case .instanceOfAnother, .renewalElsewhere: .invalidRequest
        case .denied(let denial, _, _): .denied(denial)
        case .riskTooHigh, .extensions, .extensionWithheld, .attestationRevoked: .integrityCheck
        case .systemOutdated: .osOutdated
        case .instanceUnknown: .notFound
        case .storeUnavailable, .statementExpired: .temporarilyUnavailable
        case .checkFailed: .server
        }
    }

    /// The number of seconds after which the same request may succeed with a new nonce and new proofs. Nil if waiting
    /// does not help.
    public var retryAfter: Int? {
        switch self {
        case .approvalPending: 60
        case .storeUnavailable, .denied(.storeUnavailable, _, _): 5
        case .keyAttestation(.statusListMissing): KeyStatus.retryAfter
        case .admission(.keysUnavailable): IssuerKeys.retryAfter
        case .admission(.keyNotFetched): IssuerKeys.retryAfterFetch
        default: nil
        }
    }

    /// A description for the log and the developer of the client, without a capital letter and full stop. It contains
    /// nothing that was received.
    public var reason: String {
        switch self {
        case .contentMalformed(let fault): "\(fault.reason)"
        case .memberMissing(let member): "\(member.rawValue) is missing"
        case .memberUnknown: "there is an unknown member"
        case .valueFormat(let member): "\(member.rawValue) is malformed"
        case .tokenMalformed: "the assertion is not a JWT in compact form"
        case .tokenMembers: "a header member or claim of the JWT is unknown or duplicated"
        case .tokenAlgorithm: "alg is not ES256"
        case .tokenType: "typ is not the one of this endpoint"
        case .tokenKey: "cnf.jwk is not a P-256 public key of kty, crv, x and y"
        case .tokenKeyID: "kid is not the thumbprint of cnf.jwk"
        case .tokenAudience: "aud is not the URL of this service"
        case .tokenIssuer: "iss is not the URL of this service, /instance/ and the thumbprint of cnf.jwk"
        case .tokenIssuedAt: "iat is not within 60 s of the current time"
        case .tokenExpiry: "exp is in the past, or more than 300 s after iat"
        case .tokenSignature: "the JWT's signature does not verify with cnf.jwk"
        case .admission(let fault): "\(fault.reason)"
        case .attestation(let fault): fault.reason
        case .keyAttestation(let fault): fault.reason
        case .integrity(let fault): fault.reason
        case .certificateKeyMismatch: "mtls_key_attestation is of another key than cnf.jwk"
        case .attestationRevoked: "a key that vouches for the hardware key is revoked"
        case .hardwareSignature: "hardware_signature does not verify with the hardware key"
        case .assertion(let fault): "\(fault.reason)"
        case .extensions(let fault): fault.reason
        case .extensionWithheld: "an extension is absent that the key shows at the same time"
        case .dsr(let fault): fault.reason
        case .nonceRefused, .nonceExpired: "the nonce is unknown, expired or used"
        case .instanceKnown: "the hardware key is already registered"
        case .developmentDevicesExhausted:
            "the app has as many devices for development as it may have: an operator can revoke one"
        case .tagTaken: "another app instance has this hardware_key_tag: draw a new one at random"
        case .instanceUnknown: "no app instance has this hardware_key_tag"
        case .instanceRevoked: "the app instance is revoked"
        case .instanceOfAnother: "the app instance is another person's"
        case .renewalElsewhere: "renew at the listener for enrolled devices, with this app instance's certificate"
        case .denied(let denial, let detail, _): detail ?? "\(denial.row.code)"
        case .counterSpent: "the counter was used before"
        case .counterLate: "the counter is lower than one that was used: make a new proof"
        case .keyRefused: "the new key cannot be bound to this app instance"
        case .keysExhausted: "the app instance has bound too many keys: initialize one with a new hardware key"
        case .approvalPending: "an operator must approve the app instance: try again later with a new nonce"
        case .appRefused: "the app is not allowed"
        case .riskTooHigh: "too many keys were attested on this device recently"
        case .systemOutdated: "the system version that was attested is below the minimum"
        case .storeUnavailable: "the registry is not available"
        case .statementExpired: "the entity statement has expired: put a new one into its file"
        case .checkFailed: "a check could not be completed"
        }
    }

    /// The step of the attestation's verification that has failed. Nil if the fault is elsewhere.
    var step: String? {
        switch self {
        case .attestation(let fault): fault.step.rawValue
        case .keyAttestation(let fault): fault.step.rawValue
        case .integrity(let fault): fault.step.rawValue
        default: nil
        }
    }

    package init(_ refusal: Refusal) {
        self = .denied(refusal.denial, detail: refusal.detail, component: refusal.component)
    }

    /// Runs a computation and converts its error to a failed check.
    static func checking<Result>(
        _ compute: () throws(CryptographyError) -> Result
    ) throws(EnrolmentFault) -> Result {
        do throws(CryptographyError) { return try compute() } catch { throw .checkFailed(error) }
    }
}

extension LibraryContext {
    /// Returns SHA-256 of both texts in a row.
    func digest(of first: [UInt8], _ second: [UInt8] = []) throws(EnrolmentFault) -> Digest256 {
        try EnrolmentFault.checking { () throws(CryptographyError) in try sha256(of: first.span, second.span) }
    }

    /// Returns the hardware key of a device.
    func key(of device: Device) throws(EnrolmentFault) -> P256VerificationKey {
        let point = device.identity.point.bytes
        return try EnrolmentFault.checking { () throws(CryptographyError) in
            try P256VerificationKey(point: point.span, self)
        }
    }

    /// Returns the key id of a key.
    ///
    /// - Parameter point: The uncompressed point.
    func keyID(of point: [UInt8]) throws(EnrolmentFault) -> KeyID {
        let digest = try digest(of: point)
        guard let keyID = KeyID(digest: digest.span) else { preconditionFailure("a SHA-256 has 32 bytes") }
        return keyID
    }
}

extension RegistryRequests {
    /// Sends a command.
    ///
    /// - Parameter completion: Called once, on the loop's thread.
    func perform(_ command: RegistryCommand, completion: @escaping (Result<RegistryReply, EnrolmentFault>) -> Void) {
        let isSent = send(command) { completion($0.mapError { EnrolmentFault($0) }) }
        if !isSent { completion(.failure(.storeUnavailable)) }
    }
}

extension AttestationFault {
    /// The error code. A value of the wrong form is malformed. Apps and systems below a minimum have their own codes.
    /// All other faults mean an invalid proof.
    fileprivate var enrolmentError: EnrolmentError {
        switch self {
        case .checkFailed, .receipt(.checkFailed): .server
        case .tooLong, .malformed, .unknownFormat, .unknownEntry, .entryMissing, .certificateCount, .authenticatorData,
            .extensions:
            .validation
        case .validationCategory, .bundleVersion, .platformRefused: .integrityCheck
        case .systemVersion: .osOutdated
        case .rpIDMismatch, .counterNotZero, .environmentMismatch, .certificateUnreadable, .leafKey, .keyIDMismatch,
            .credentialIDMismatch, .coseKeyKind, .coseKeyMismatch, .nonceExtensionCount, .nonceExtensionForm,
            .nonceMismatch, .platformForm, .leafIsAuthority, .intermediateIsNoAuthority, .outsideValidity, .untrusted,
            .receiptMissing, .receipt:
            .invalidRequest
        }
    }
}

extension KeyAttestationFault {
    /// The error code, by the same rules.
    fileprivate var enrolmentError: EnrolmentError {
        switch self {
        case .checkFailed: .server
        case .statusListMissing: .temporarilyUnavailable
        case .certificateCount, .certificateTooLong, .certificateUnreadable, .serialNumber, .keyDescriptionForm:
            .validation
        case .securityLevelTooLow, .versionTooLow, .bootloaderUnlocked, .bootState, .revoked: .integrityCheck
        case .patchLevelMissing, .patchLevelTooOld: .osOutdated
        case .virtualMachine, .rootUnknown, .issuerMismatch, .signatureInvalid, .provisioningUnknown, .chainLength,
            .outsideValidity, .keyDescriptionCount, .keyDescriptionAbove, .securityLevelsDiffer, .securityLevelOfChain,
            .leafKey, .authorization, .challengeMismatch, .applicationMissing, .packageCount, .packageMismatch,
            .signingCertificateMismatch:
            .invalidRequest
        }
    }
}

extension IntegrityFault {
    /// The error code, by the same rules. Who encrypted a token has the app's key: a wrong signature below is a wrong
    /// `verification_key`, which is the service's fault.
    fileprivate var enrolmentError: EnrolmentError {
        switch self {
        case .checkFailed, .signature: .server
        case .malformed, .header, .payload: .validation
        case .recognition, .versionTooLow, .device: .integrityCheck
        case .algorithm, .notForKey, .altered, .content, .signatureAlgorithm, .packageMismatch, .nonceMismatch, .tooOld,
            .fromTheFuture, .certificateMismatch:
            .invalidRequest
        }
    }
}

extension AssertionFault {
    /// The error code. Key binding has one code for all faults of an assertion, including its form.
    fileprivate var enrolmentError: EnrolmentError {
        switch self {
        case .checkFailed: .server
        case .tooLong, .malformed, .unknownEntry, .entryMissing, .authenticatorData, .rpIDMismatch, .counterZero,
            .signatureInvalid:
            .invalidRequest
        }
    }
}

/// The refusals of the enrolment endpoints, in one table, and those of the gateway where devices have a certificate.
public enum EnrolmentError: Hashable, Sendable {
    case badRequest
    case invalidRequest
    case integrityCheck
    case osOutdated
    case notFound
    case validation
    case server
    case temporarilyUnavailable
    /// A row of the gateway's table.
    case denied(Denial)

    /// The rows of the endpoints' own table.
    static let own: [EnrolmentError] = [
        .badRequest, .invalidRequest, .integrityCheck, .osOutdated, .notFound, .validation, .server,
        .temporarilyUnavailable,
    ]
    /// The rows of the gateway's table for a device's certificate and its proof.
    static let denials: [Denial] = [
        .deviceUnknown, .deviceRevoked, .deviceMismatch, .deviceRisky, .osOutdated, .appRefused, .proofRequired,
        .proofMalformed, .challengeRequired, .proofStale, .proofIncomplete, .proofInvalid, .bodyDigestMismatch,
        .counterReplayed, .counterLate, .storeUnavailable, .internalError,
    ]

    /// One row of the table.
    public struct Row: Sendable {
        /// The JSON member `error`. It is never renamed.
        public let code: StaticString
        /// The HTTP status.
        public let status: UInt16
        /// The message for the client, one sentence.
        public let sentence: StaticString
    }

    public var row: Row {
        switch self {
        case .badRequest:
            Row(
                code: "bad_request", status: 400,
                sentence: "The request is malformed, or has missing, unknown or duplicate members.")
        case .invalidRequest:
            Row(code: "invalid_request", status: 403, sentence: "The request lacks a valid proof.")
        case .integrityCheck:
            Row(
                code: "integrity_check_error", status: 403,
                sentence: "The device or app does not meet the requirements.")
        case .osOutdated:
            Row(
                code: "os_outdated", status: 403,
                sentence: "The device's system version is below the minimum: update the system and enrol again.")
        case .notFound:
            Row(code: "not_found", status: 404, sentence: "The app instance is unknown: initialize it first.")
        case .validation:
            Row(code: "validation_error", status: 422, sentence: "A value is malformed.")
        case .server:
            Row(code: "server_error", status: 500, sentence: "The service failed: start again with a new nonce.")
        case .temporarilyUnavailable:
            Row(
                code: "temporarily_unavailable", status: 503,
                sentence: "The service is not available: try again later.")
        case .denied(let denial):
            Row(code: denial.row.code, status: denial.status ?? 403, sentence: denial.row.sentence)
        }
    }

    /// Whether the service is at fault. The client then receives only the sentence.
    public var isOurs: Bool { row.status >= 500 }
}

/// The endpoints of the service.
package enum EnrolmentEndpoint: Int, CaseIterable, Sendable {
    case nonce
    case initialization
    case keyBinding
    case deviceTokenKeys
    /// A client attestation for a wallet.
    case walletAttestation
    /// The statement for a federation.
    case federation
    /// The gateway's challenge endpoint, for the proofs of the next ones.
    case challenge
    case attestation
    case instances
    /// The path ends with the id of an instance.
    case instance
    // Those of the reference system, which has no others but `nonce`.
    case registerDevice
    case deviceAttestation
    case deviceToken
    case deviceRegistrations
    case deregistration

    package var path: StaticString {
        switch self {
        case .nonce: "/nonce"
        case .initialization: "/instance-initialization"
        case .keyBinding: "/key-binding"
        case .deviceTokenKeys: "/.well-known/jwks.json"
        case .walletAttestation: "/wallet-instance-attestations"
        case .federation: "/.well-known/openid-federation"
        case .challenge: "/.well-known/attestgate/challenge"
        case .attestation: "/attestation"
        case .instances: "/instances"
        case .instance: "/instances/{id}"
        case .registerDevice: "/register-device"
        case .deviceAttestation: "/device-attestation"
        case .deviceToken: "/device-token"
        case .deviceRegistrations, .deregistration: "/device-registrations"
        }
    }

    /// The only permitted method.
    var method: HTTP.Method {
        switch self {
        case .nonce, .deviceTokenKeys, .federation, .challenge, .instances, .deviceRegistrations: .get
        case .initialization, .keyBinding, .walletAttestation, .attestation, .registerDevice, .deviceAttestation,
            .deviceToken:
            .post
        case .instance: .patch
        case .deregistration: .delete
        }
    }

    /// Whether the request has content.
    var hasContent: Bool { method != .get && method != .delete }

    /// Whether the request has parameters in its query.
    var hasQuery: Bool { self == .deviceRegistrations || self == .deregistration }

    /// Whether the content is a form, not JSON.
    var hasForm: Bool { self == .deviceToken }

    /// Whether the endpoint is served only in the form of the reference system.
    var isReference: Bool {
        switch self {
        case .registerDevice, .deviceAttestation, .deviceToken, .deviceRegistrations, .deregistration: true
        default: false
        }
    }

    /// Whether the endpoint uses nonces in the form of this project.
    var hasOwnNonces: Bool {
        switch self {
        case .initialization, .keyBinding, .walletAttestation, .attestation: true
        default: false
        }
    }

    /// Whether a listener serves the endpoint.
    ///
    /// - Parameter hasCertificates: Whether its clients are enrolled devices.
    func isServed(toDevices hasCertificates: Bool) -> Bool {
        switch self {
        case .nonce, .keyBinding: true
        case .initialization, .deviceTokenKeys, .walletAttestation, .federation, .registerDevice: !hasCertificates
        case .challenge, .attestation, .instances, .instance, .deviceAttestation, .deviceToken, .deviceRegistrations,
            .deregistration:
            hasCertificates
        }
    }

    /// The name in logs and metrics.
    package var name: String {
        switch self {
        case .deviceTokenKeys: "jwks"
        case .federation: "openid-federation"
        case .challenge: "challenge"
        case .instance: "instance"
        case .deregistration: "deregistration"
        case .nonce, .initialization, .keyBinding, .walletAttestation, .attestation, .instances, .registerDevice,
            .deviceAttestation, .deviceToken, .deviceRegistrations:
            String("\(path)".dropFirst())
        }
    }

    private static let instancePrefix = "/instances/"

    /// Finds the endpoint of a path. Where a path has two, the method decides.
    init?(path: String, _ method: HTTP.Method?) {
        if path.hasPrefix(Self.instancePrefix) {
            self = .instance
        } else {
            let endpoints = Self.allCases.filter { "\($0.path)" == path }
            guard let endpoint = endpoints.first(where: { $0.method == method }) ?? endpoints.first else { return nil }
            self = endpoint
        }
    }

    /// The methods of the path, as in Allow.
    var allowed: String {
        Self.allCases.filter { "\($0.path)" == "\(path)" }.map { "\($0.method.name)" }.joined(separator: ", ")
    }

    /// Returns the instance that a path of `instance` names. Nil if it is no id.
    static func instance(path: String) -> KeyID? {
        guard let bytes = Base64URL.decode(String(path.dropFirst(instancePrefix.count))) else { return nil }
        return KeyID(digest: bytes.span)
    }
}

/// Conversion of the registry's refusals.
extension EnrolmentFault {
    init(_ refusal: InitializationRefusal) {
        self =
            switch refusal {
            case .epochChanged, .nonceExpired, .nonceUsed: .nonceRefused
            case .keyRegistered: .instanceKnown
            case .tagTaken: .tagTaken
            case .tooManyForDevelopment: .developmentDevicesExhausted
            case .deviceRevoked: .instanceRevoked
            case .keyBound: .keyRefused
            case .serialUsed: .checkFailed(CryptographyError(doing: "generate an unused serial number"))
            case .subjectRevoked: .admission(.subject)
            }
    }

    init(_ refusal: KeyBindingRefusal) {
        self =
            switch refusal {
            case .epochChanged, .nonceExpired, .nonceUsed: .nonceRefused
            case .deviceUnknown: .instanceUnknown
            case .deviceRevoked: .instanceRevoked
            case .extensionWithheld: .extensionWithheld
            case .renewalElsewhere: .renewalElsewhere
            case .serialUsed: .checkFailed(CryptographyError(doing: "generate an unused serial number"))
            case .keyBound, .keyMismatch: .keyRefused
            case .tooManyKeys: .keysExhausted
            case .awaitingApproval: .approvalPending
            case .admissionRequired: .memberMissing(.admissionToken)
            case .tokenExpired: .admission(.time)
            case .tokenUsed: .admission(.used)
            case .subjectRevoked, .subjectMismatch: .admission(.subject)
            case .counterReplayed: .counterSpent
            case .counterLate: .counterLate
            }
    }

    init(_ error: StoreError) {
        self =
            switch error {
            case .deviceUnknown, .bindingUnknown: .instanceUnknown
            case .deviceRevoked: .instanceRevoked
            // The registry never answers enrolment with the others.
            case .keyRegistered, .keyBound, .devicePending, .unavailable: .storeUnavailable
            }
    }
}
