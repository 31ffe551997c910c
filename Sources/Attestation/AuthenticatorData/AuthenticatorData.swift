/// Authenticator data (WebAuthn section 6.1) as App Attest makes it.
///
/// The flags do not tell what follows the fixed part, whatever WebAuthn says: assertions up to iOS 26 set AT (0x40) with
/// no credential data behind, Apple's sample of 2026 and macOS 27 leave ED (0x80) clear before extensions, iOS 27 sets
/// both without credential data. So the form is known from where the data stands (an assertion or an attestation), the
/// rest must read as one map to the last byte, and the flags are kept for the log alone.
///
/// It is hashed as it came, never as it is understood here.
public struct AuthenticatorData: Equatable, Sendable {
    /// RP id hash, flags and counter.
    public static let fixedLength = 37

    /// Where all of it lies: what the signature covers.
    public let range: Range<Int>
    /// For the log; decides nothing.
    public let flags: UInt8
    /// 0 in an attestation, at least 1 in an assertion.
    public let counter: UInt32
    public let extensions: AppExtensions

    /// Where the SHA-256 of the app id (team id, dot, bundle id) lies.
    public var rpIDHash: Range<Int> { range.lowerBound..<(range.lowerBound + 32) }

    /// Reads the form that assertions carry: the fixed part, then nothing or exactly one map of extensions.
    ///
    /// - Parameters:
    ///   - bytes: what holds the authenticator data; all ranges count from its beginning.
    ///   - range: where in them it lies; must lie within `bytes`.
    public init(assertion bytes: Span<UInt8>, in range: Range<Int>) throws(AuthenticatorDataFault) {
        guard range.count >= Self.fixedLength else { throw .tooShort }
        let start = range.lowerBound
        self.range = range
        flags = bytes[start + 32]
        counter = Self.counter(bytes, at: start + 33)
        extensions = try Self.extensions(bytes, in: (start + Self.fixedLength)..<range.upperBound)
    }

    /// Big-endian (WebAuthn section 6.1).
    static func counter(_ bytes: Span<UInt8>, at start: Int) -> UInt32 {
        var value: UInt32 = 0
        for index in start..<(start + 4) { value = value << 8 | UInt32(bytes[index]) }
        return value
    }

    /// What stands behind everything else: nothing, or exactly one map.
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

/// What is wrong with authenticator data.
public enum AuthenticatorDataFault: Error, Equatable, Sendable {
    /// Less than the 37 bytes every form has (WebAuthn section 6.1).
    case tooShort
    /// What follows them is not exactly one map from text to what Apple's extensions hold.
    case extensions(CBORFault)
    /// A code directory hash without its type, a type without a hash, or a hash of an impossible length.
    case codeDirectoryHash
    /// An attestation's ends before or inside the AAGUID, the credential id or the COSE key, or the key is no CBOR map.
    case credential(CBORFault)
}

extension AuthenticatorDataFault {
    /// For the log, and for the developer of the client.
    public var reason: StaticString {
        switch self {
        case .tooShort: "the authenticator data is shorter than 37 bytes"
        case .extensions(let fault): fault.reason
        case .codeDirectoryHash: "the code directory hash of the authenticator data is incomplete"
        case .credential(let fault): fault.reason
        }
    }
}

/// The authenticator data of an attestation (WebAuthn sections 6.1 and 6.5.1): the fixed part, AAGUID, credential id,
/// exactly one COSE key, then nothing or the extensions. The flags decide nothing, as `AuthenticatorData` tells.
public struct AttestedData: Equatable, Sendable {
    /// Where all of it lies: what the nonce covers.
    public let range: Range<Int>
    public let flags: UInt8
    public let counter: UInt32
    /// Where the 16 bytes lie that name the environment of the key.
    public let aaguid: Range<Int>
    public let credentialID: Range<Int>
    /// Nil if the COSE key is of another kind than the one Apple attests.
    public let key: COSEKey?
    /// Where the extensions lie; empty up to iOS 26. Not looked into here.
    public let extensions: Range<Int>

    /// Where the SHA-256 of the app id lies.
    public var rpIDHash: Range<Int> { range.lowerBound..<(range.lowerBound + 32) }

    /// AAGUID and the length of the credential id.
    private static let credentialHead = 16 + 2

    /// - Parameters:
    ///   - bytes: what holds the authenticator data; all ranges count from its beginning.
    ///   - range: where in them it lies; must lie within `bytes`.
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

/// The one kind of COSE key that App Attest has (RFC 9053 sections 2.1 and 7.1.1): an EC2 key on P-256 for ES256, with
/// two coordinates of 32 bytes, and nothing else.
public struct COSEKey: Equatable, Sendable {
    /// Where the coordinates lie.
    public let x: Range<Int>
    public let y: Range<Int>

    /// Reads one map.
    ///
    /// - Returns: nil if it is a key of another kind. The reader then stands behind it all the same.
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
