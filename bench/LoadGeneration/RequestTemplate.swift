public import HTTP

/// The bytes of one request, made once and sent over and over.
public struct RequestTemplate: Sendable {
    public let method: Method
    let bytes: [UInt8]

    /// - Parameter body: the content; nil sends a request without any.
    public init(_ target: LoadURL, method: Method, body: [UInt8]?) {
        self.method = method
        var head = "\(method.name) \(target.target) HTTP/1.1\r\nHost: \(target.authority)\r\n"
        head += "User-Agent: attestgate-load\r\n"
        if let body { head += "Content-Length: \(body.count)\r\n" }
        bytes = Array((head + "\r\n").utf8) + (body ?? [])
    }
}
