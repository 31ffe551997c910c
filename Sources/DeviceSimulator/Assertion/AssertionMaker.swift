public import Cryptography
public import Vocabulary

/// Makes assertions as the Secure Enclave and iOS do, with a key in software and a counter that the caller keeps.
///
/// Belongs to the thread of its library context.
public final class AssertionMaker {
    /// The SHA-256 of the hardware key's point.
    public let keyID: KeyID
    /// The uncompressed point of the hardware key, 65 bytes.
    public var point: [UInt8] { key.point }

    private let key: P256SigningKey
    private let form: AssertionForm
    /// RP id hash and flags: what precedes the counter.
    private let prefix: [UInt8]
    private let extensions: [UInt8]
    private let library: LibraryContext

    /// - Parameter rpID: whose SHA-256 stands in the authenticator data: the text of the app id, on a genuine phone.
    /// - Throws: if the key is not on P-256.
    public init(
        _ key: PrivateKey, rpID: String, form: AssertionForm = .iOS14, _ library: LibraryContext
    ) throws(CryptographyError) {
        self.key = try P256SigningKey(key, library)
        guard let keyID = try key.publicKey.keyID(library) else {
            throw CryptographyError(doing: "make assertions: the key is not on P-256")
        }
        self.keyID = keyID
        self.form = form
        let text = Array(rpID.utf8)
        prefix = try library.sha256(of: text.span).bytes + [form.flags]
        extensions = form.extensions
        self.library = library
    }

    /// The assertion: a CBOR map of `signature` and `authenticatorData`.
    ///
    /// - Parameter clientDataHash: any bytes; 32 in a request proof.
    public func assertion(counter: UInt32, clientDataHash: [UInt8]) throws(CryptographyError) -> [UInt8] {
        var data = prefix
        data.reserveCapacity(37 + extensions.count)
        for shift: UInt32 in [24, 16, 8, 0] { data.append(UInt8(truncatingIfNeeded: counter >> shift)) }
        data += extensions
        // The nonce is the message of an ECDSA signature with SHA-256, not its digest: hence SHA-256 twice.
        let nonce = try library.sha256(of: data.span, clientDataHash.span)
        let digest = try library.sha256(of: nonce.span)
        let signature = try key.sign(digest: digest)
        return CBORWriter.map(
            form.unsignedEntries + [
                ("signature", CBORWriter.bytes(signature)), ("authenticatorData", CBORWriter.bytes(data)),
            ])
    }
}
