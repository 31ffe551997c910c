public import Cryptography
internal import Encoding
public import Vocabulary

/// A maker of assertions like the Secure Enclave and iOS, with a software key. The caller keeps the counter.
///
/// Belongs to the thread of its library context.
public final class AssertionMaker {
    /// The SHA-256 of the hardware key's point.
    public let keyID: KeyID
    /// The uncompressed point of the hardware key, 65 bytes.
    public var point: [UInt8] { key.point }

    private let key: P256SigningKey
    private let form: AssertionForm
    /// The part before the counter: RP id hash and flags.
    private let prefix: [UInt8]
    private let extensions: [UInt8]
    private let library: LibraryContext

    /// Creates a maker.
    ///
    /// - Parameter rpID: The text whose SHA-256 is the RP id hash. On a genuine phone it is the app id.
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

    /// Returns an assertion: a CBOR map of `signature` and `authenticatorData`.
    ///
    /// - Parameter clientDataHash: Any bytes, 32 in a request proof.
    public func assertion(counter: UInt32, clientDataHash: [UInt8]) throws(CryptographyError) -> [UInt8] {
        let (signature, data) = try parts(counter: counter, clientDataHash: clientDataHash)
        return CBORWriter.map(
            form.unsignedEntries + [
                ("signature", CBORWriter.bytes(signature)), ("authenticatorData", CBORWriter.bytes(data)),
            ])
    }

    /// Returns the two parts of an assertion.
    func parts(
        counter: UInt32, clientDataHash: [UInt8]
    ) throws(CryptographyError) -> (signature: [UInt8], authenticatorData: [UInt8]) {
        var data = prefix
        data.reserveCapacity(37 + extensions.count)
        for shift: UInt32 in [24, 16, 8, 0] { data.append(UInt8(truncatingIfNeeded: counter >> shift)) }
        data += extensions
        // The nonce is the message of an ECDSA signature with SHA-256, not its digest. Therefore SHA-256 is applied
        // twice.
        let nonce = try library.sha256(of: data.span, clientDataHash.span)
        let digest = try library.sha256(of: nonce.span)
        return (try key.sign(digest: digest), data)
    }
}

/// The forms of assertions that devices send.
public enum AssertionForm: String, CaseIterable, Sendable {
    /// iOS 14 to 26: 37 bytes of authenticator data, flags 0x40.
    case iOS14 = "ios-14"
    /// iOS 18.5 to 26 with code hashes: an additional unsigned entry.
    case iOS18CodeHash = "ios-18-code-hash"
    /// iOS 27: flags 0xC0 and a map of extensions.
    case iOS27 = "ios-27"
    /// iOS 27 with code hashes.
    case iOS27CodeHash = "ios-27-code-hash"
    /// macOS 27: a map of extensions that the flags do not announce.
    case macOS27 = "macos-27"

    /// The flags. Bit 6 is AT, which announces attested credential data (there is none). Bit 7 is ED, extension data.
    var flags: UInt8 {
        switch self {
        case .iOS14, .iOS18CodeHash, .macOS27: 0x40
        case .iOS27, .iOS27CodeHash: 0xc0
        }
    }

    /// The bytes after the first 37: nothing, or one CBOR map.
    var extensions: [UInt8] {
        // 4 is the App Store. The number is little-endian, unlike all other fields of authenticator data.
        let app: [(String, [UInt8])] = [
            ("apple_bundle_version_01", CBORWriter.text("1")),
            ("apple_validation_category_01", CBORWriter.bytes([4, 0, 0, 0])),
        ]
        switch self {
        case .iOS14, .iOS18CodeHash: return []
        case .iOS27, .macOS27: return CBORWriter.map(app)
        case .iOS27CodeHash:
            let codeHash: [(String, [UInt8])] = [
                ("apple_cd_hash_hash_01", CBORWriter.bytes(Self.codeHash)),
                ("apple_cd_hash_type_01", CBORWriter.bytes([2])),
            ]
            return CBORWriter.map(app + codeHash)
        }
    }

    /// The unsigned entries of the assertion.
    var unsignedEntries: [(String, [UInt8])] {
        guard self == .iOS18CodeHash else { return [] }
        let entries = [
            ("hash", CBORWriter.bytes(Array(Self.codeHash.prefix(20)))), ("type", CBORWriter.bytes([2])),
        ]
        return [("cdHash", CBORWriter.map(entries))]
    }

    /// A substitute for the hash of the app's code directory.
    private static let codeHash = [UInt8](0..<32)

    /// The system in the leaf certificate. Nil if it states none.
    var system: (platform: String, version: String, build: String)? {
        switch self {
        case .iOS14: nil
        case .iOS18CodeHash: ("iphoneos", "18.5", "22F76")
        case .iOS27, .iOS27CodeHash: ("iphoneos", "27.0", "24A100")
        case .macOS27: ("macosx", "27.0", "26A100")
        }
    }
}
