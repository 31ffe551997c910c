internal import Attestation
internal import Vocabulary

/// A refusal by a rule of gematik's reference system (Device Security Rating), with one case for each check.
public enum DSRFault: Error, Equatable, Sendable {
    /// A member of the content, a form field or a parameter is missing or of another form.
    case constraint(Parameter)
    /// The token is not a JWS in compact serialization.
    case tokenMalformed
    /// A required member of the token's header or payload is missing, or of another type.
    case tokenSyntax
    case algorithm
    /// `x5c` does not have exactly one certificate.
    case cardCount
    case cardUnreadable
    case cardCurve
    case cardPurpose
    case cardOutsideValidity
    /// No configured authority, valid today, has issued the card's certificate.
    case cardUntrusted
    case cardHolder
    /// The signature does not verify with the key of `x5c`.
    case signature
    case issuer
    case issuerVersion
    case issuedAt
    case deviceType
    /// `sub` is not the key id of the certificate's key.
    case subject
    case keyID
    case requestMalformed
    /// The certification request is for another key than `sub`.
    case requestKey
    case requestSignature
    case challengePassword
    /// The attested key is not the certificate's.
    case attestedKey
    case packageName
    /// `x5c` is not the certificate of the connection.
    case certificate
    /// The code is unknown, expired, used, of another certificate or another verifier.
    case session
    /// No such registration of this person.
    ///
    /// - isAbsent: Whether the answer is 404, as in the API description of the reference system.
    case registration(isAbsent: Bool)

    public enum Parameter: String, Sendable {
        case token
        case codeChallenge
        case code
        case codeVerifier = "code_verifier"
        case userIdentifier
        case deviceIdentifier
    }
}

extension DSRFault {
    /// The row of the endpoints' own table, for counts and the log.
    var error: EnrolmentError {
        switch self {
        case .constraint, .tokenMalformed, .tokenSyntax: .badRequest
        case .requestMalformed: .validation
        case .registration, .session: .notFound
        default: .invalidRequest
        }
    }

    /// The code of the reference system.
    var code: StaticString {
        switch self {
        case .constraint: "CONSTRAINT_VIOLATION"
        case .tokenSyntax: "INVALID_TOKEN_SYNTAX"
        case .tokenMalformed, .algorithm, .cardCount, .cardUnreadable, .cardCurve, .cardPurpose, .cardOutsideValidity,
            .cardUntrusted, .subject, .packageName:
            "INVALID_TOKEN"
        case .cardHolder: "MISSING_USER_IDENTITY"
        case .signature: "JWT_INVALID_SIGNATURE"
        case .issuer: "INVALID_TOKEN_ISSUER"
        case .issuerVersion: "UNSUPPORTED_ISSUER_VERSION"
        case .issuedAt: "TOKEN_EXPIRED"
        case .deviceType: "UNKNOWN_DEVICE_TYPE"
        case .keyID: "INVALID_KEY_ID"
        case .requestMalformed, .requestKey, .requestSignature: "CSR_INVALID"
        case .challengePassword: "NONCE_INVALID"
        case .attestedKey: "FINGERPRINT_COMPARISON_FAILURE"
        case .certificate: "UNSUITABLE_CLIENT_CERTIFICATE"
        case .session: "DEVICE_ATTESTATION_SESSION_NOT_FOUND"
        case .registration: "DEVICE_REGISTRATION_NOT_FOUND"
        }
    }

    var reason: String {
        switch self {
        case .constraint(let parameter): "\(parameter.rawValue) is missing or malformed"
        case .tokenMalformed: "the token is not a JWS in compact form"
        case .tokenSyntax: "a required member of the token is missing or malformed"
        case .algorithm: "alg is not that of the token"
        case .cardCount: "x5c does not have exactly one certificate, the card's"
        case .cardUnreadable: "the card's certificate is malformed"
        case .cardCurve: "the card's key is not on brainpoolP256r1"
        case .cardPurpose: "the card's certificate is not for signatures"
        case .cardOutsideValidity: "the card's certificate is expired or not valid yet"
        case .cardUntrusted: "no configured authority has issued the card's certificate"
        case .cardHolder: "the card's certificate does not name one insured person"
        case .signature: "the token's signature does not verify with the key of x5c"
        case .issuer: "iss does not begin with TrustSDK_"
        case .issuerVersion: "iss has no version of digits and full stops"
        case .issuedAt: "iat is too old or in the future"
        case .deviceType: "type is neither IOS nor ANDROID"
        case .subject: "sub is not SHA-256 of the certificate's key"
        case .keyID: "keyId is not that of the attestation"
        case .requestMalformed: "csr is not a PKCS #10 request for a P-256 key"
        case .requestKey: "csr is for another key than sub"
        case .requestSignature: "the key of csr has not signed it"
        case .challengePassword: "the challenge password of csr is not of this nonce"
        case .attestedKey: "the attested key is not the one of sub"
        case .packageName: "packageName is not the attested app's"
        case .certificate: "x5c is not the certificate of the connection"
        case .session: "the code is unknown, expired, used, or of another certificate or verifier"
        case .registration: "this person has no such device"
        }
    }
}

/// The status and the code of an answer to a client of the reference system.
struct DSRError: Equatable {
    let status: UInt16
    let code: String

    init(_ status: UInt16 = 400, code: String) {
        self.status = status
        self.code = code
    }

    /// Maps a refusal. Those that the reference system does not know keep their own code, in capital letters; its API
    /// has no other status than 400 and 500 for them.
    init(_ fault: EnrolmentFault) {
        switch fault {
        case .dsr(.registration(isAbsent: true)): self.init(404, code: "DEVICE_REGISTRATION_NOT_FOUND")
        case .dsr(let fault): self.init(code: "\(fault.code)")
        case .denied(.deviceUnknown, _, _), .denied(.deviceRevoked, _, _), .instanceUnknown, .instanceRevoked:
            self.init(code: "DEVICE_REGISTRATION_NOT_FOUND")
        case .nonceRefused: self.init(code: "NONCE_INVALID")
        case .nonceExpired: self.init(code: "NONCE_EXPIRED")
        case .instanceKnown, .keyRefused: self.init(code: "DEVICE_ALREADY_REGISTERED")
        case .counterSpent, .counterLate, .denied(.counterReplayed, _, _), .denied(.counterLate, _, _):
            self.init(code: "INVALID_COUNTER")
        case .contentMalformed: self.init(code: "CONSTRAINT_VIOLATION")
        case .admission: self.init(code: "INVALID_TOKEN")
        case .attestation(let fault): self.init(code: Self.code(fault))
        case .keyAttestation(let fault) where fault != .statusListMissing: self.init(code: Self.code(fault))
        case .assertion(let fault): self.init(code: Self.code(fault))
        default:
            let row = fault.error.row
            let isOurs = fault.error.isOurs
            self.init(
                isOurs ? row.status : 400,
                code: row.status == 500 ? "INTERNAL_SERVER_ERROR" : "\(row.code)".uppercased())
        }
    }

    private static func code(_ fault: AttestationFault) -> String {
        switch fault {
        case .tooLong, .malformed, .unknownEntry, .entryMissing, .authenticatorData, .extensions: "INVALID_CBOR_FORMAT"
        case .unknownFormat: "INVALID_FORMAT_IDENTIFIER"
        case .rpIDMismatch: "INVALID_RP_ID"
        case .counterNotZero: "INVALID_COUNTER"
        case .environmentMismatch: "UNEXPECTED_AAGUID_FIELD"
        case .keyIDMismatch, .credentialIDMismatch: "INVALID_KEY_ID"
        case .nonceExtensionCount, .nonceExtensionForm: "NOT_PARSABLE_NONCE_SEQUENCE"
        case .nonceMismatch: "NONCE_INVALID"
        case .certificateCount, .certificateUnreadable, .leafKey, .leafIsAuthority, .intermediateIsNoAuthority,
            .outsideValidity, .untrusted:
            "INVALID_CERTIFICATE_CHAIN"
        default: "\(EnrolmentFault.attestation(fault).error.row.code)".uppercased()
        }
    }

    private static func code(_ fault: KeyAttestationFault) -> String {
        switch fault {
        case .certificateTooLong, .certificateUnreadable: "NOT_PARSABLE_CERTIFICATE_CHAIN"
        case .certificateCount, .rootUnknown, .issuerMismatch, .signatureInvalid, .chainLength, .outsideValidity:
            "INVALID_CERTIFICATE_CHAIN"
        case .challengeMismatch: "NONCE_INVALID"
        case .revoked: "REVOKE_LIST_ENTRY"
        case .securityLevelTooLow, .securityLevelsDiffer: "INVALID_ATTESTATION_SECURITY_LEVEL"
        case .packageCount, .packageMismatch, .applicationMissing: "INVALID_ATTESTATION_APPLICATION_ID"
        default: "\(EnrolmentFault.keyAttestation(fault).error.row.code)".uppercased()
        }
    }

    private static func code(_ fault: AssertionFault) -> String {
        switch fault {
        case .tooLong, .malformed, .unknownEntry, .entryMissing, .authenticatorData: "INVALID_CBOR_FORMAT"
        case .rpIDMismatch: "INVALID_RP_ID"
        case .counterZero: "INVALID_COUNTER"
        case .signatureInvalid: "INVALID_SIGNATURE_FOR_NONCE"
        case .checkFailed: "INTERNAL_SERVER_ERROR"
        }
    }
}
