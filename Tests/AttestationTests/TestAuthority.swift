import Attestation
import COpenSSL
import Cryptography
import DeviceSimulator

/// A certification authority like Apple's for App Attest, created for each test. Root and intermediate are on P-384,
/// leaf certificates on P-256. It can issue malformed certificates.
struct TestAuthority {
    let library: LibraryContext
    let root: Certificate
    private let rootKey: PrivateKey
    private let intermediateKey: PrivateKey

    /// Validity in seconds since 1970, both ends included.
    static let validity: ClosedRange<Int64> = 1_600_000_000...2_000_000_000

    init(_ library: LibraryContext) throws {
        self.library = library
        rootKey = try Self.key("P-384", library)
        intermediateKey = try Self.key("P-384", library)
        root = try Self.sign(
            Request(subject: "Test App Attestation Root CA", validity: Self.validity, isAuthority: true), rootKey,
            issuer: nil, rootKey, library)
    }

    /// The content of a certificate.
    struct Request {
        var subject: String
        var validity: ClosedRange<Int64>
        /// Whether basic constraints say authority. Nil omits them.
        var isAuthority: Bool?
        var keyUsage: String?
        /// Identifier in dotted form and content. None is critical.
        var extensions: [(String, [UInt8])] = []
    }

    func trustedRoot() throws(CryptographyError) -> TrustedRoot { try TrustedRoot(root, library) }

    func intermediate(
        validity: ClosedRange<Int64> = TestAuthority.validity, isAuthority: Bool? = true, keyUsage: String? = nil
    ) throws -> Certificate {
        let request = Request(
            subject: "Test App Attestation CA 1", validity: validity, isAuthority: isAuthority, keyUsage: keyUsage)
        return try Self.sign(request, intermediateKey, issuer: root, rootKey, library)
    }

    /// Returns a leaf for `key`, issued by the intermediate.
    func leaf(_ request: Request, for key: PrivateKey, by intermediate: Certificate) throws -> Certificate {
        try Self.sign(request, key, issuer: intermediate, intermediateKey, library)
    }

    /// Returns a leaf that the root issued directly.
    func leafOfRoot(_ request: Request, for key: PrivateKey) throws -> Certificate {
        try Self.sign(request, key, issuer: root, rootKey, library)
    }

    static func key(_ curve: String, _ library: LibraryContext) throws -> PrivateKey {
        let context = EVP_PKEY_CTX_new_from_name(library.pointer, "EC", nil)
        defer { EVP_PKEY_CTX_free(context) }
        var key: OpaquePointer?
        guard EVP_PKEY_keygen_init(context) == 1, EVP_PKEY_CTX_set_group_name(context, curve) == 1,
            EVP_PKEY_generate(context, &key) == 1, let key
        else { throw CryptographyError.fromQueue(doing: "make a key") }
        return PrivateKey(owning: key)
    }

    static func rsaKey(_ bits: Int, _ library: LibraryContext) throws -> PrivateKey {
        let context = EVP_PKEY_CTX_new_from_name(library.pointer, "RSA", nil)
        defer { EVP_PKEY_CTX_free(context) }
        var key: OpaquePointer?
        guard EVP_PKEY_keygen_init(context) == 1, EVP_PKEY_CTX_set_rsa_keygen_bits(context, Int32(bits)) == 1,
            EVP_PKEY_generate(context, &key) == 1, let key
        else { throw CryptographyError.fromQueue(doing: "make a key") }
        return PrivateKey(owning: key)
    }

    static func point(of key: PrivateKey) -> [UInt8] { key.publicKey.uncompressedPoint ?? [] }

    static func der(_ certificate: Certificate) -> [UInt8] {
        var encoding: UnsafeMutablePointer<UInt8>?
        let count = i2d_X509(certificate.pointer, &encoding)
        defer { CRYPTO_free(encoding, #file, #line) }
        return Array(UnsafeBufferPointer(start: encoding, count: Int(count)))
    }

    private static func sign(
        _ request: Request, _ key: PrivateKey, issuer: Certificate?, _ issuerKey: PrivateKey, _ library: LibraryContext
    ) throws -> Certificate {
        var form = CertificateForm(name: [("CN", request.subject)], key: key, validity: request.validity)
        form.extensions = request.extensions.map { .init($0.0, $0.1) }
        if let isAuthority = request.isAuthority {
            form.constraints.append((.basicConstraints, isAuthority ? "critical,CA:TRUE" : "critical,CA:FALSE"))
        }
        if let keyUsage = request.keyUsage { form.constraints.append((.keyUsage, "critical,\(keyUsage)")) }
        return try form.sign(by: issuerKey, issuer: issuer, library)
    }
}

/// A P-256 key that signs assertions like the Secure Enclave.
struct SoftwareKey {
    private let key: PrivateKey
    private let library: LibraryContext
    let verification: P256VerificationKey

    init(_ library: LibraryContext) throws {
        key = try PrivateKey.generateP256(library)
        self.library = library
        let point = key.publicKey.uncompressedPoint ?? []
        verification = try P256VerificationKey(point: point.span, library)
    }

    /// Returns an ECDSA signature with SHA-256 over the nonce SHA-256(authenticator data || client data hash), in DER.
    func sign(_ authenticatorData: [UInt8], _ clientDataHash: [UInt8]) throws -> [UInt8] {
        let nonce = try library.sha256(of: authenticatorData.span, clientDataHash.span)
        return try sign(digest: library.sha256(of: nonce.span).bytes)
    }

    /// Returns an ECDSA signature over the given digest.
    func sign(digest: [UInt8]) throws -> [UInt8] { try Self.sign(digest: digest, key, library) }

    static func sign(digest: [UInt8], _ key: PrivateKey, _ library: LibraryContext) throws -> [UInt8] {
        guard let context = EVP_PKEY_CTX_new_from_pkey(library.pointer, key.pointer, nil) else {
            throw CryptographyError.fromQueue(doing: "sign")
        }
        defer { EVP_PKEY_CTX_free(context) }
        var signature = [UInt8](repeating: 0, count: 72)
        var length = signature.count
        guard EVP_PKEY_sign_init(context) == 1,
            EVP_PKEY_sign(context, &signature, &length, digest, digest.count) == 1
        else { throw CryptographyError.fromQueue(doing: "sign") }
        return Array(signature[..<length])
    }
}

/// The verifier with arrays as parameters.
struct Verifying {
    let library: LibraryContext

    init() throws { library = try LibraryContext() }

    func hash(_ bytes: [UInt8]) throws -> [UInt8] { try library.sha256(of: bytes.span).bytes }

    func verify(
        _ assertion: [UInt8], _ clientDataHash: [UInt8], _ key: P256VerificationKey, rpIDHash: [UInt8]
    ) -> Result<VerifiedAssertion, AssertionFault> {
        do throws(AssertionFault) {
            return .success(
                try AssertionVerifier.verify(
                    assertion.span, clientDataHash: clientDataHash.span, key: key, rpIDHash: rpIDHash.span,
                    digests: library))
        } catch {
            return .failure(error)
        }
    }

    /// Parses the form of an assertion.
    func parse(_ assertion: [UInt8]) -> Result<Assertion, AssertionFault> {
        do throws(AssertionFault) { return .success(try Assertion(assertion.span)) } catch { return .failure(error) }
    }
}

/// Parses the form of an attestation.
func parseAttestation(_ bytes: [UInt8]) -> Result<AttestationObject, AttestationFault> {
    do throws(AttestationFault) { return .success(try AttestationObject(bytes.span)) } catch { return .failure(error) }
}

extension Result {
    var failure: Failure? { if case .failure(let failure) = self { failure } else { nil } }
}
