internal import COpenSSL

/// A CMS message with signed data (RFC 5652 section 5), one signer and that signer's certificate.
///
/// The encoding is BER, as in Apple's receipts. The caller limits the size.
public final class SignedMessage {
    private let pointer: OpaquePointer
    private let information: OpaquePointer
    private let library: LibraryContext
    /// The signed content.
    public let content: [UInt8]
    /// The certificates of the message in their order, including the signer's.
    public let certificates: [Certificate]
    public let signer: Certificate

    /// Limit of the number of certificates. Apple sends signer, intermediate and root.
    public static let certificateLimit = 6

    /// The data that the signature covers.
    public enum Coverage: Equatable, Sendable {
        /// The content. There are no signed attributes.
        case content
        /// The signed attributes, which include the content's digest.
        case attributes
        /// The content, despite signed attributes. This contradicts RFC 5652 section 5.4, but Apple signed so at the
        /// time of iOS 14.0. The signature then does not cover the attributes.
        case contentDespiteAttributes
    }

    /// Parses a message.
    ///
    /// - Throws: if the bytes are not exactly one message of this form.
    public init(ber: Span<UInt8>, _ library: LibraryContext) throws(CryptographyError) {
        let pointer = try Self.decode(ber, library)
        // Until initialization is complete, this function must free the message.
        var isKept = false
        defer { if !isKept { CMS_ContentInfo_free(pointer) } }

        guard OBJ_obj2nid(CMS_get0_type(pointer)) == NID_pkcs7_signed else { throw Self.fault("it is not signed data") }
        guard OBJ_obj2nid(CMS_get0_eContentType(pointer)) == NID_pkcs7_data,
            let slot = CMS_get0_content(pointer), let octets = slot.pointee
        else { throw Self.fault("it contains no data") }
        content = Array(
            UnsafeBufferPointer(start: ASN1_STRING_get0_data(octets), count: Int(ASN1_STRING_length(octets))))
        certificates = try Self.certificates(of: pointer)

        let signers = CMS_get0_SignerInfos(pointer)
        guard ag_sk_cms_signer_num(signers) == 1, let information = ag_sk_cms_signer_value(signers, 0) else {
            throw Self.fault("it does not have exactly one signer")
        }
        guard let signer = certificates.first(where: { CMS_SignerInfo_cert_cmp(information, $0.pointer) == 0 }) else {
            throw Self.fault("the signer's certificate is missing")
        }
        self.information = information
        self.signer = signer
        self.pointer = pointer
        self.library = library
        isKept = true
    }

    deinit {
        CMS_ContentInfo_free(pointer)
    }

    /// Verifies the signature with the signer's key.
    ///
    /// - Returns: what the signature covers, or nil if it is invalid or weaker than SHA-256.
    public func verifySignature() throws(CryptographyError) -> Coverage? {
        guard usesStrongDigest else { return nil }
        let hasAttributes = CMS_signed_get_attr_count(information) >= 0
        if hasAttributes, verifiesAttributes() { return .attributes }
        guard try verifiesContent() else { return nil }
        return hasAttributes ? .contentDespiteAttributes : .content
    }

    /// Returns whether the attributes are signed and include the content's digest.
    private func verifiesAttributes() -> Bool {
        ERR_clear_error()
        CMS_SignerInfo_set1_signer_cert(information, signer.pointer)
        defer { ERR_clear_error() }
        // The caller verifies the path of the signer's certificate.
        return CMS_verify(pointer, nil, nil, nil, nil, UInt32(CMS_NO_SIGNER_CERT_VERIFY)) == 1
    }

    /// Returns whether the signature is over the content itself.
    private func verifiesContent() throws(CryptographyError) -> Bool {
        ERR_clear_error()
        guard let key = X509_get0_pubkey(signer.pointer), let signature = CMS_SignerInfo_get0_signature(information),
            let context = EVP_MD_CTX_new()
        else { throw .fromQueue(doing: "verify a message") }
        defer {
            EVP_MD_CTX_free(context)
            ERR_clear_error()
        }
        guard EVP_DigestVerifyInit_ex(context, nil, digestName, library.pointer, nil, key, nil) == 1 else {
            throw .fromQueue(doing: "verify a message")
        }
        let verdict = EVP_DigestVerify(
            context, ASN1_STRING_get0_data(signature), Int(ASN1_STRING_length(signature)), content, content.count)
        return verdict == 1
    }

    private var digest: Int32 {
        var algorithm: UnsafeMutablePointer<X509_ALGOR>?
        CMS_SignerInfo_get0_algs(information, nil, nil, &algorithm, nil)
        var object: OpaquePointer?
        X509_ALGOR_get0(&object, nil, nil, algorithm)
        return OBJ_obj2nid(object)
    }

    private var usesStrongDigest: Bool { [NID_sha256, NID_sha384, NID_sha512].contains(digest) }

    private var digestName: String {
        switch digest {
        case NID_sha384: "SHA384"
        case NID_sha512: "SHA512"
        default: "SHA256"
        }
    }

    private static func decode(_ ber: Span<UInt8>, _ library: LibraryContext) throws(CryptographyError) -> OpaquePointer
    {
        ERR_clear_error()
        var slot = CMS_ContentInfo_new_ex(library.pointer, nil)
        let consumed = ber.withUnsafeBufferPointer { bytes -> Int in
            var next = bytes.baseAddress
            guard let start = bytes.baseAddress, d2i_CMS_ContentInfo(&slot, &next, bytes.count) != nil, let next
            else { return -1 }
            return next - start
        }
        // On failure OpenSSL has freed the message and set the slot to nil.
        guard let read = slot, consumed >= 0 else { throw .fromQueue(doing: "read a signed message") }
        guard consumed == ber.count else {
            CMS_ContentInfo_free(read)
            throw fault("bytes follow it")
        }
        return read
    }

    private static func certificates(of message: OpaquePointer) throws(CryptographyError) -> [Certificate] {
        guard let stack = CMS_get1_certs(message) else { return [] }
        defer { ag_sk_x509_pop_free(stack) }
        let count = ag_sk_x509_num(stack)
        guard count <= certificateLimit else { throw fault("it has more than \(certificateLimit) certificates") }
        return (0..<count).compactMap { ag_sk_x509_value(stack, $0).map { Certificate(sharing: $0) } }
    }

    private static func fault(_ why: String) -> CryptographyError {
        CryptographyError(doing: "read a signed message: \(why)")
    }
}
