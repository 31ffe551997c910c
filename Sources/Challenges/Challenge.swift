/// The text of a challenge: 78 characters of base64url, as it travels in `Accept-Signature` and comes back in `nonce`.
///
/// It stands for 58 bytes:
///
/// | bytes | what |
/// |---|---|
/// | 1 | version, 1 |
/// | 1 | generation of the secret |
/// | 8 | time of issue, in seconds since 1970, big-endian |
/// | 16 | random |
/// | 32 | HMAC-SHA-256 of all before |
public struct Challenge: Sendable {
    /// Length of the text, in characters.
    public static let length = 78

    static let version: UInt8 = 1
    static let timeOffset = 2
    static let randomOffset = 10
    static let randomLength = 16
    static let codeOffset = 26

    /// The 58 bytes a challenge stands for.
    typealias Content = InlineArray<58, UInt8>

    private var text = InlineArray<78, UInt8>(repeating: 0)

    init(_ content: Content) {
        var room = text.mutableSpan
        Base64URLText.encode(content.span, into: &room)
    }

    /// The characters, copied.
    public var bytes: [UInt8] { (0..<Self.length).map { text[$0] } }

    /// The characters, ASCII.
    public var span: Span<UInt8> {
        @_lifetime(borrow self)
        get { text.span }
    }
}
