internal import COpenSSL

/// How strong a signature on a statement of an authority must be: SHA-256 or more.
enum SignatureStrength {
    /// - Parameter algorithm: the NID of a signature algorithm: sha256WithRSAEncryption. RSASSA-PSS says its digest elsewhere, and
    ///   counts as weak here.
    static func isSufficient(_ algorithm: Int32) -> Bool {
        guard algorithm != NID_ED25519, algorithm != NID_ED448 else { return true }
        var digest: Int32 = NID_undef
        guard OBJ_find_sigid_algs(algorithm, &digest, nil) == 1, let known = EVP_get_digestbyname(OBJ_nid2sn(digest))
        else { return false }
        return EVP_MD_get_size(known) >= 32
    }
}

extension Certificate {
    /// Whether the signature on it is as strong as SHA-256 makes it.
    public var isSignedWithSHA256OrMore: Bool {
        var bits: Int32 = 0
        // Knows RSASSA-PSS too; less than what collisions of SHA-256 cost otherwise.
        return X509_get_signature_info(pointer, nil, nil, &bits, nil) == 1 && bits >= 128
    }

    /// Whether it names itself as its issuer, as roots do.
    public var isSelfIssued: Bool { isNamedIssuer(of: self) }
}
