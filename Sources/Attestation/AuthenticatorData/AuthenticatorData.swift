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
