internal import Challenges

/// A nonce as a client sends it back. Whether it is ours, fresh and unused is for others.
public struct IssuedNonce: Hashable, Sendable {
    /// How long the text is, in characters: at least 128 bits.
    static let lengths = 22...128

    /// Base64url in its one spelling, so that equal bytes are equal text.
    public let text: [UInt8]
    /// What the text stands for.
    public let bytes: [UInt8]

    /// Nil comes of text of another form.
    public init?(_ text: [UInt8]) {
        guard Self.lengths.contains(text.count), let bytes = Base64URLText.decode(text.span) else { return nil }
        self.text = text
        self.bytes = bytes
    }
}
