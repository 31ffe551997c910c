/// A nonce of the service's: base64url, to be given back as it is.
struct EnrolmentNonce: Equatable, Sendable {
    let text: String
    /// What the text stands for.
    let bytes: [UInt8]

    /// Nil comes of text of another form, which could also not stand in JSON as it is.
    init?(_ text: String) {
        guard (22...128).contains(text.utf8.count), let bytes = Base64URL.decode(text) else { return nil }
        self.text = text
        self.bytes = bytes
    }
}
