/// Where an app enrols.
public struct EnrolmentServiceAddress: Hashable, Sendable {
    /// Of the endpoints; without a slash at its end.
    public let url: String
    /// The URL the service knows itself by: the audience of key-binding tokens. The service compares it byte by byte.
    public let provider: String

    /// - Parameters:
    ///   - url: `https://host[:port][/path]`, in unreserved characters of URLs and `:/[]%`; a slash at its end is taken off.
    ///   - provider: nil if it is the same.
    public init?(url: String, provider: String? = nil) {
        let url = url.hasSuffix("/") ? String(url.dropLast()) : url
        guard Self.isAdmitted(url), Self.isAdmitted(provider ?? url) else { return nil }
        self.url = url
        self.provider = provider ?? url
    }

    /// What the service itself admits as its URL.
    private static func isAdmitted(_ text: String) -> Bool {
        let scheme = "https://"
        return text.utf8.starts(with: scheme.utf8) && text.utf8.count > scheme.utf8.count && text.utf8.count <= 1_024
            && text.utf8.last != UInt8(ascii: "/") && text.utf8.allSatisfy(admitted.contains)
    }

    private static let admitted = Set(
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~:/[]%".utf8)
}

/// A request of enrolment: to be sent over TLS that authenticates the server, without a client certificate.
public struct EnrolmentRequest: Equatable, Sendable {
    public enum Endpoint: String, CaseIterable, Sendable {
        case nonce
        case initialization = "instance-initialization"
        case keyBinding = "key-binding"
    }

    public let endpoint: Endpoint
    public let service: EnrolmentServiceAddress
    /// JSON, to be sent with `Content-Type: application/json`; nil for a request without content.
    public let content: [UInt8]?

    init(_ endpoint: Endpoint, of service: EnrolmentServiceAddress, _ content: [UInt8]? = nil) {
        self.endpoint = endpoint
        self.service = service
        self.content = content
    }

    public var method: String { content == nil ? "GET" : "POST" }
    public var url: String { "\(service.url)/\(endpoint.rawValue)" }
}
