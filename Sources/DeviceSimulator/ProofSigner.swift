public import Cryptography
public import RequestProof
public import Vocabulary

/// A software hardware key that signs proofs as the phones of its app do. The caller keeps the counter.
///
/// Belongs to the thread of its library context.
public struct ProofSigner {
    private enum Form {
        case appAttest(AssertionMaker)
        /// An Android key, which signs the base. The counter is one of its lines.
        case android(P256SigningKey)
    }

    /// The SHA-256 of the hardware key's point.
    public let keyID: KeyID
    private let form: Form

    /// Creates a signer.
    ///
    /// - Parameters:
    ///   - app: The app, whose id determines the platform.
    ///   - rpID: The text whose SHA-256 is the RP id hash of assertions. Nil for the app id.
    ///   - form: The form of assertions.
    /// - Throws: if the key is not on P-256.
    public init(
        _ key: PrivateKey, of app: AppID, rpID: String? = nil, form: AssertionForm = .iOS14, _ library: LibraryContext
    ) throws(CryptographyError) {
        let maker = try AssertionMaker(key, rpID: rpID ?? app.description, form: form, library)
        keyID = maker.keyID
        self.form = app.isAndroid ? .android(try P256SigningKey(key, library)) : .appAttest(maker)
    }

    /// The uncompressed point of the hardware key, 65 bytes.
    public var point: [UInt8] {
        switch form {
        case .appAttest(let maker): maker.point
        case .android(let key): key.point
        }
    }

    public var algorithm: ProofAlgorithm {
        switch form {
        case .appAttest: .appleAttest
        case .android: .ecdsaP256SHA256
        }
    }

    /// Returns the counter that the request must state in a field. Nil for App Attest.
    public func stated(_ counter: UInt32) -> UInt32? { algorithm == .appleAttest ? nil : counter }

    /// Returns an assertion with the counter, or a signature of 64 bytes.
    ///
    /// - Parameter clientDataHash: The SHA-256 of the signature base, 32 bytes.
    public func sign(counter: UInt32, clientDataHash: [UInt8]) throws(CryptographyError) -> [UInt8] {
        switch form {
        case .appAttest(let maker): return try maker.assertion(counter: counter, clientDataHash: clientDataHash)
        case .android(let key):
            guard let digest = Digest256(clientDataHash.span) else {
                throw CryptographyError(doing: "sign: the hash does not have 32 bytes")
            }
            let signature = try key.sign(digest: digest)
            guard let fixed = ECDSASignature.fixedWidth(der: signature.span) else {
                throw CryptographyError(doing: "sign: the signature cannot be read")
            }
            return fixed
        }
    }
}
