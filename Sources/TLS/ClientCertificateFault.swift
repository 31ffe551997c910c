internal import COpenSSL

/// Why a client certificate is refused.
public enum ClientCertificateFault: Error, Equatable, Sendable {
    /// None was presented.
    case missing
    /// It does not chain to one of the configured authorities.
    case unknownAuthority(subject: String)
    /// It, or a certificate above it, is expired or not yet valid.
    case outsideValidity(subject: String)
    /// It cannot be used: purpose, key, signature, extension, depth.
    case unsuitable(subject: String, reason: String)

    /// Sorts OpenSSL's verification errors into the faults we tell apart.
    static func of(verifyError: Int32, subject: String) -> ClientCertificateFault {
        switch verifyError {
        case X509_V_ERR_CERT_HAS_EXPIRED, X509_V_ERR_CERT_NOT_YET_VALID:
            .outsideValidity(subject: subject)
        case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT, X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY,
            X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN, X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT,
            X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE, X509_V_ERR_CERT_UNTRUSTED,
            // A foreign authority that carries the name of ours.
            X509_V_ERR_CERT_SIGNATURE_FAILURE:
            .unknownAuthority(subject: subject)
        default:
            .unsuitable(subject: subject, reason: String(cString: X509_verify_cert_error_string(Int(verifyError))))
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
        }
    }
}
