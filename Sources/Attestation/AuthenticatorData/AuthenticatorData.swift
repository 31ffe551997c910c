public import Encoding

/// Authenticator data (WebAuthn section 6.1) in the form of App Attest.
///
/// Its flags do not tell what follows the fixed part, in contrast to WebAuthn. Assertions up to iOS 26 set AT (0x40)
/// without credential data. Apple's sample of 2026 and macOS 27 clear ED (0x80) before extensions. iOS 27 sets both
/// without credential data. Therefore the form follows from the container, an assertion or an attestation. The rest
/// must be exactly one map, and the flags serve only the log.
///
/// Hashes are computed over the bytes as received.
public struct AuthenticatorData: Equatable, Sendable {
    /// Length of RP id hash, flags and counter.
    public static let fixedLength = 37

    /// The position of the authenticator data, which the signature covers.
    public let range: Range<Int>
    /// The flags, only for the log.
    public let flags: UInt8
    /// The counter: 0 in an attestation, at least 1 in an assertion.
    public let counter: UInt32
    public let extensions: AppExtensions

    /// The position of the SHA-256 of the app id (team id, full stop, bundle id).
    public var rpIDHash: Range<Int> { range.lowerBound..<(range.lowerBound + 32) }

    /// Parses the form in assertions: the fixed part, then nothing or exactly one map of extensions.
    ///
    /// - Parameters:
    ///   - bytes: The bytes with the authenticator data. All ranges count from their beginning.
    ///   - range: The position of the authenticator data within `bytes`.
    public init(assertion bytes: Span<UInt8>, in range: Range<Int>) throws(AuthenticatorDataFault) {
        guard range.count >= Self.fixedLength else { throw .tooShort }
        let start = range.lowerBound
        self.range = range
        flags = bytes[start + 32]
        counter = Self.counter(bytes, at: start + 33)
        extensions = try Self.extensions(bytes, in: (start + Self.fixedLength)..<range.upperBound)
    }

    /// Reads the counter, which is big-endian (WebAuthn section 6.1).
    static func counter(_ bytes: Span<UInt8>, at start: Int) -> UInt32 {
        var value: UInt32 = 0
        for index in start..<(start + 4) { value = value << 8 | UInt32(bytes[index]) }
        return value
    }

    /// Parses the end of the authenticator data: nothing, or exactly one map.
    static func extensions(
        _ bytes: Span<UInt8>, in range: Range<Int>
    ) throws(AuthenticatorDataFault) -> AppExtensions {
        guard !range.isEmpty else { return AppExtensions() }
        var reader = CBORReader(bytes, in: range)
        let extensions = try AppExtensions(&reader, of: bytes)
        do throws(CBORFault) { try reader.finish() } catch { throw .extensions(error) }
        return extensions
    }
}

/// The reason why authenticator data is malformed.
public enum AuthenticatorDataFault: Error, Equatable, Sendable {
    /// The data has less than the 37 bytes of every form (WebAuthn section 6.1).
    case tooShort
    /// The rest is not exactly one map from text to values of Apple's extensions.
    case extensions(CBORFault)
    /// The code directory hash lacks its type, the type lacks its hash, or the hash has an impossible length.
    case codeDirectoryHash
    /// The attestation ends before or inside the AAGUID, the credential id or the COSE key, or the key is not a CBOR
    /// map.
    case credential(CBORFault)
}

extension AuthenticatorDataFault {
    /// A description for the log and the developer of the client.
    public var reason: StaticString {
        switch self {
        case .tooShort: "the authenticator data is shorter than 37 bytes"
        case .extensions(let fault): fault.reason
        case .codeDirectoryHash: "the code directory hash of the authenticator data is incomplete"
        case .credential(let fault): fault.reason
        }
    }
}

/// The authenticator data of an attestation (WebAuthn sections 6.1 and 6.5.1).
///
/// It consists of the fixed part, AAGUID, credential id, exactly one COSE key, then nothing or the extensions. The
/// flags are ignored, as in `AuthenticatorData`.
public struct AttestedData: Equatable, Sendable {
    /// The position of the authenticator data, which the nonce covers.
    public let range: Range<Int>
    public let flags: UInt8
    public let counter: UInt32
    /// The position of the 16 bytes that state the environment of the key.
    public let aaguid: Range<Int>
    public let credentialID: Range<Int>
    /// The key. Nil if the COSE key is not of the kind that Apple attests.
    public let key: COSEKey?
    /// The position of the extensions, which are empty up to iOS 26. They are not parsed here.
    public let extensions: Range<Int>

    /// The position of the SHA-256 of the app id.
    public var rpIDHash: Range<Int> { range.lowerBound..<(range.lowerBound + 32) }

    /// Length of AAGUID and the length field of the credential id.
    private static let credentialHead = 16 + 2

    /// Parses the data.
    ///
    /// - Parameters:
    ///   - bytes: The bytes with the authenticator data. All ranges count from their beginning.
    ///   - range: The position of the authenticator data within `bytes`.
    public init(_ bytes: Span<UInt8>, in range: Range<Int>) throws(AuthenticatorDataFault) {
        guard range.count >= AuthenticatorData.fixedLength else { throw .tooShort }
        let start = range.lowerBound
        let credential = start + AuthenticatorData.fixedLength
        guard range.upperBound - credential >= Self.credentialHead else { throw .credential(.truncated) }
        let length = Int(bytes[credential + 16]) << 8 | Int(bytes[credential + 17])
        let idStart = credential + Self.credentialHead
        guard range.upperBound - idStart >= length else { throw .credential(.truncated) }

        self.range = range
        flags = bytes[start + 32]
        counter = AuthenticatorData.counter(bytes, at: start + 33)
        aaguid = credential..<(credential + 16)
        credentialID = idStart..<(idStart + length)
        do throws(CBORFault) {
            var reader = CBORReader(bytes, in: (idStart + length)..<range.upperBound)
            key = try COSEKey.read(&reader)
            extensions = reader.position..<range.upperBound
        } catch {
            throw .credential(error)
        }
    }
}

/// A COSE key of App Attest's only kind: an EC2 key on P-256 for ES256 with two coordinates of 32 bytes (RFC 9053
/// sections 2.1 and 7.1.1).
public struct COSEKey: Equatable, Sendable {
    /// The positions of the coordinates.
    public let x: Range<Int>
    public let y: Range<Int>

    /// Parses one map.
    ///
    /// - Returns: nil for a key of another kind. The reader then still advances past it.
    static func read(_ reader: inout CBORReader) throws(CBORFault) -> COSEKey? {
        var isKnown = true
        var x: Range<Int>?
        var y: Range<Int>?
        var constants = 0
        var map = try reader.beginMap()
        while let key = try reader.nextKey(&map) {
            let kind = try reader.peek()
            switch (key, kind) {
            // kty: EC2; alg: ES256; crv: P-256.
            case (.integer(1), .unsigned), (.integer(3), .negative), (.integer(-1), .unsigned):
                isKnown = try reader.readInteger() == value(of: key) && isKnown
                constants += 1
            case (.integer(-2), .bytes): x = try reader.readBytes()
            case (.integer(-3), .bytes): y = try reader.readBytes()
            default:
                try reader.skip()
                isKnown = false
            }
        }
        guard isKnown, constants == 3, let x, let y, x.count == 32, y.count == 32 else { return nil }
        return COSEKey(x: x, y: y)
    }

    private static func value(of key: CBORKey) -> Int64 {
        switch key {
        case .integer(1): 2
        case .integer(3): -7
        default: 1
        }
    }
}
