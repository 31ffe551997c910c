/// The URL that the enrolment service is known under: audience of every token made for it.
public struct ProviderURL: Hashable, Sendable {
    public let text: String

    /// - Parameter text: `https://` and more, without a slash at the end, query or fragment, in unreserved characters of
    ///   URLs and `:/[]%`. Anything else is no such URL: it is compared byte by byte, so it has one spelling.
    public init?(_ text: String) {
        let scheme = "https://"
        let admitted = Set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~:/[]%".utf8)
        guard text.utf8.starts(with: scheme.utf8), text.utf8.count > scheme.utf8.count, text.utf8.count <= 1024,
            text.utf8.last != UInt8(ascii: "/"), text.utf8.allSatisfy(admitted.contains)
        else { return nil }
        self.text = text
    }

    /// The `iss` of the app instance whose new key has this thumbprint.
    func instance(_ thumbprint: String) -> String { "\(text)/instance/\(thumbprint)" }
}
