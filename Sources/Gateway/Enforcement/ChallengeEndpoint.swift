internal import HTTP

/// `GET /.well-known/attestgate/challenge`: where a client gets its first challenge, for a certificate alone.
enum ChallengeEndpoint {
    /// The value of the Allow field.
    static let methods = Array("GET, HEAD".utf8)
    private static let path = Array("/.well-known/attestgate/challenge".utf8)

    /// The path is the gateway's own on every host: no route can take it.
    static func isMeant(by head: RequestHead, _ bytes: Span<UInt8>) -> Bool {
        head.path.count == path.count && head.path.of(bytes).equals(path.span)
    }
}
