internal import COpenSSL
internal import Cryptography
public import Vocabulary

/// Why a client certificate is refused.
public struct ClientCertificateFault: Error, Equatable, Sendable {
    public enum Kind: CaseIterable, Sendable {
        /// None was presented.
        case missing
        /// It does not chain to one of the configured authorities.
        case unknownAuthority
        /// It, or a certificate above it, is expired or not yet valid.
        case outsideValidity
        /// It cannot be used: purpose, key, signature, extension, depth.
        case unsuitable
        /// It, or a certificate above it, is on its issuer's revocation list.
        case revoked
        /// Nobody can say whether it is revoked: there is no list of its issuer, or none that is fresh.
        case listStale
        /// Its key is none of those the listener is open to.
        case notPinned
        /// Its key is that of a device that was revoked.
        case deviceRevoked
        /// Its key was bound to a device, and is no more.
        case bindingEnded
    }

    public let kind: Kind
    /// What was presented; nil if nothing was.
    public let certificate: PresentedCertificate?
    /// In words.
    public let reason: String

    public static let missing = ClientCertificateFault(kind: .missing, certificate: nil, reason: "none was presented")
}

/// A certificate by all the names it has, for logs. Its holder may have chosen them.
public struct PresentedCertificate: Equatable, Sendable {
    /// In RFC 2253 form, like `issuer`.
    public let subject: String
    public let issuer: String
    /// In upper-case hexadecimal.
    public let serial: String
    /// Nil if the key is not P-256.
    public let keyID: KeyID?

    init(_ certificate: Certificate, _ library: LibraryContext) {
        subject = Self.cut(certificate.subject)
        issuer = Self.cut(certificate.issuer)
        serial = Self.cut(certificate.serial)
        keyID = (try? certificate.publicKey?.keyID(library)) ?? nil
    }

    /// A name may be as long as a handshake message; a line of the log may not.
    private static func cut(_ text: String) -> String { text.utf8.count <= 256 ? text : "\(text.prefix(256))..." }
}

extension ClientCertificateFault.Kind {
    /// Sorts OpenSSL's verification errors into the faults we tell apart.
    init(verifyError: Int32) {
        self =
            switch verifyError {
            case X509_V_ERR_CERT_HAS_EXPIRED, X509_V_ERR_CERT_NOT_YET_VALID: .outsideValidity
            case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT, X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY,
                X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN, X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT,
                X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE, X509_V_ERR_CERT_UNTRUSTED,
                // A foreign authority that carries the name of ours.
                X509_V_ERR_CERT_SIGNATURE_FAILURE:
                .unknownAuthority
            default: .unsuitable
            }
    }

    /// The verification error whose alert OpenSSL is to send (RFC 8446 section 6.2): it derives the alert from the code
    /// left in the store context, and maps several of them to `bad_certificate` or `decrypt_error`.
    var alertingVerifyError: Int32 {
        switch self {
        case .missing: X509_V_ERR_UNSPECIFIED
        case .unknownAuthority: X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY  // unknown_ca
        case .outsideValidity: X509_V_ERR_CERT_HAS_EXPIRED  // certificate_expired
        case .unsuitable: X509_V_ERR_INVALID_PURPOSE  // unsupported_certificate
        // certificate_revoked, whatever the source.
        case .revoked, .deviceRevoked, .bindingEnded: X509_V_ERR_CERT_REVOKED
        // certificate_unknown: those of stale lists would tell the client that its certificate has expired, or its issuer is
        // unknown.
        case .listStale: X509_V_ERR_CRL_PATH_VALIDATION_ERROR
        case .notPinned: X509_V_ERR_CERT_REJECTED  // bad_certificate
        }
    }
}
