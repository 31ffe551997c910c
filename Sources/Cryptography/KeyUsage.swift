internal import COpenSSL

/// What a certificate's key may do (RFC 5280 section 4.2.1.3), as far as it is asked for here.
struct KeyUsage: OptionSet {
    let rawValue: UInt32

    static let certificateSigning = KeyUsage(rawValue: UInt32(KU_KEY_CERT_SIGN))
    static let listSigning = KeyUsage(rawValue: UInt32(KU_CRL_SIGN))
}

extension Certificate {
    /// Empty without the extension: who signs certificates or revocation lists must have it.
    var keyUsage: KeyUsage {
        guard X509_get_ext_by_NID(pointer, NID_key_usage, -1) >= 0 else { return [] }
        return KeyUsage(rawValue: X509_get_key_usage(pointer))
    }

    var hasSubjectKeyIdentifier: Bool { X509_get0_subject_key_id(pointer) != nil }
}
