internal import HTTP

/// A request of our own to a service, ready to be sent.
public struct OutboundRequest: Sendable {
    /// Path, and query if there is one.
    let target: [UInt8]
    let host: [UInt8]
    /// Lines.
    let fields: [UInt8]
    let content: [UInt8]

    var framing: ContentFraming { content.isEmpty ? .none : .length(UInt64(content.count)) }

    /// `POST`.
    ///
    /// - Parameters:
    ///   - target: path, and query if there is one.
    ///   - host: the value of Host.
    ///   - fields: names and values of further fields; nothing of them comes from anywhere a line end could slip in.
    public init(post target: String, host: String, fields: [(name: String, value: String)], content: [UInt8]) {
        var lines = "User-Agent: attestgate\r\n"
        for (name, value) in fields { lines += "\(name): \(value)\r\n" }
        precondition(
            (target + host + lines).utf8.count { $0 == 0x0a } == 1 + fields.count,
            "a value of an own request has a line end in it")
        self.target = Array(target.utf8)
        self.host = Array(host.utf8)
        self.fields = Array(lines.utf8)
        self.content = content
    }
}

/// What a service answered, whatever its status.
public struct OutboundAnswer: Equatable, Sendable {
    public internal(set) var status: UInt16 = 0
    /// Seconds; nil if it says none, or a date, which needs two clocks that agree.
    public internal(set) var retryAfter: Int64?
    public internal(set) var content: [UInt8] = []
}

/// Why there is no answer.
public enum OutboundFailure: Error, Equatable, Sendable {
    case upstream(UpstreamFailure)
    /// The request's head is larger than any that is sent.
    case tooLarge
    /// The answer has more content than was wanted. - status: of that answer.
    case contentTooLarge(status: UInt16)
    /// It took longer than was wanted, in all.
    case timeout

    /// For logs: one word, and text where it has more to say.
    public var reason: String {
        switch self {
        case .upstream(let failure): "\(failure.kind.name): \(failure.text)"
        case .tooLarge, .contentTooLarge: "too_large"
        case .timeout: "timeout"
        }
    }
}
