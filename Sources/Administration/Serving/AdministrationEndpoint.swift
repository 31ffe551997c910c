public import HTTP

/// An endpoint of a running gateway's administration.
public struct AdministrationEndpoint {
    let method: HTTP.Method
    let path: [Segment]
    let query: [String]
    let takesContent: Bool
    let access: EndpointAccess
    /// The minimum level of listeners that serve it.
    let level: AdministrationLevel
    /// The name of the change in the audit log. Nil if it changes nothing.
    let act: String?
    let answer: (AdministrationRequest, AdministrationReply) throws(AdministrationFault) -> Void

    enum Segment: Equatable {
        case literal(String)
        case parameter
    }

    /// Creates an endpoint.
    ///
    /// - Parameters:
    ///   - path: Segments after slashes. One may be a parameter, as in `/devices/{id}`.
    ///   - query: Names of the permitted members of the query, all of them optional.
    ///   - takesContent: Whether the request has JSON content. Otherwise content is refused.
    ///   - level: The minimum level of listeners. By default it depends on whether the method reads.
    ///   - act: The name of the change, as in `AdministrationAct.name`. Invalid requests, and those for which `answer`
    ///     throws a fault, are logged with it. The endpoint logs all other outcomes itself.
    ///   - answer: Called on the server's loop with the complete request. It answers through the reply, at once or
    ///     later.
    public init(
        _ method: HTTP.Method, _ path: String, query: [String] = [], takesContent: Bool = false,
        level: AdministrationLevel? = nil, act: String? = nil,
        answer: @escaping (AdministrationRequest, AdministrationReply) throws(AdministrationFault) -> Void
    ) {
        self.init(
            method, path, query: query, takesContent: takesContent, access: .operators, level: level, act: act,
            answer: answer)
    }

    /// Creates an endpoint of the page.
    ///
    /// - Parameter access: The clients that it is for.
    init(
        _ method: HTTP.Method, _ path: String, query: [String] = [], takesContent: Bool = false, access: EndpointAccess,
        level: AdministrationLevel? = nil, act: String? = nil,
        answer: @escaping (AdministrationRequest, AdministrationReply) throws(AdministrationFault) -> Void
    ) {
        self.method = method
        self.access = access
        self.level = level ?? (method == .get ? .view : .admin)
        self.act = act
        // The root has one empty segment.
        self.path = path.dropFirst().split(separator: "/", omittingEmptySubsequences: false).map {
            $0.hasPrefix("{") ? .parameter : .literal(String($0))
        }
        self.query = query
        self.takesContent = takesContent
        self.answer = answer
    }

    /// Matches a path.
    ///
    /// - Parameter segments: The segments of a path, none of them empty.
    /// - Returns: the parameter, or an empty text if the endpoint has none. Nil for another path.
    func match(_ segments: [String]) -> String? {
        guard segments.count == path.count else { return nil }
        var parameter = ""
        for (segment, expected) in zip(segments, path) {
            switch expected {
            case .literal(let name): guard segment == name else { return nil }
            case .parameter: parameter = segment
            }
        }
        return parameter
    }
}

/// A complete request that its endpoint accepts.
public struct AdministrationRequest: Equatable, Sendable {
    /// The path's parameter as received, not decoded.
    public let parameter: String
    /// The unique members of the query as received, not decoded.
    public let query: [String: String]
    public let content: [UInt8]
    /// The client for the log: the user of a Unix socket, or the kind of credentials with listener and address.
    public let peer: String
    /// The thumbprint of the client's certificate. Empty if there is none.
    let certificate: [UInt8]
    let caller: AdministrationCaller
    /// The level of the access point.
    public let level: AdministrationLevel
}

public struct AdministrationResponse: Sendable {
    public let status: UInt16
    public let contentType: StaticString
    public let content: [UInt8]
    /// The value of Set-Cookie.
    private(set) var cookie: [UInt8]?

    public init(_ status: UInt16, contentType: StaticString, _ content: [UInt8]) {
        self.status = status
        self.contentType = contentType
        self.content = content
    }

    public init(_ status: UInt16 = 200, json value: some Encodable) {
        self.init(status, contentType: "application/json", JSONText.encode(value) + [UInt8(ascii: "\n")])
    }

    public init(_ fault: AdministrationFault) {
        self.init(fault.status, json: fault)
    }

    /// Whether a browser shows the answer as a page.
    var isPage: Bool { contentType.description.hasPrefix("text/html") }

    func setting(cookie: String) -> AdministrationResponse {
        var response = self
        response.cookie = Array(cookie.utf8)
        return response
    }
}

/// The reply to one request, used on the server's loop.
///
/// It refers to the exchange only until the request ends; a later answer is dropped.
public final class AdministrationReply {
    var exchange: AdministrationExchange?

    init(to exchange: AdministrationExchange) {
        self.exchange = exchange
    }

    /// Answers. Only the first answer counts.
    public func send(_ response: AdministrationResponse) {
        guard let exchange else { return }
        self.exchange = nil
        exchange.answer(response)
        exchange.advance()
    }
}

/// The table that finds the endpoint of a request.
struct EndpointTable {
    let endpoints: [AdministrationEndpoint]

    /// Returns the endpoints of one level.
    func only(_ level: AdministrationLevel) -> EndpointTable {
        EndpointTable(endpoints: endpoints.filter { $0.level == level })
    }

    enum Outcome {
        case found(AdministrationEndpoint, parameter: String)
        /// The path is known, but not with this method.
        ///
        /// - allowed: The value of Allow.
        case methodRefused(allowed: String)
        case unknown
    }

    /// Finds an endpoint.
    ///
    /// - Parameter path: A path in canonical spelling (`TargetSpelling`). An empty last segment makes it another path.
    func find(_ method: HTTP.Method?, _ path: String) -> Outcome {
        let segments = path.split(separator: "/", omittingEmptySubsequences: false).dropFirst().map(String.init)
        let fitting = endpoints.compactMap { endpoint in endpoint.match(segments).map { (endpoint, $0) } }
        if let (endpoint, parameter) = fitting.first(where: { $0.0.method == method }) {
            return .found(endpoint, parameter: parameter)
        }
        guard !fitting.isEmpty else { return .unknown }
        return .methodRefused(allowed: fitting.map { String(describing: $0.0.method.name) }.joined(separator: ", "))
    }

    /// Parses a query.
    ///
    /// - Parameter admitted: The permitted names. Others and repeated ones are refused.
    static func members(of query: String?, admitted: [String]) throws(AdministrationFault) -> [String: String] {
        var members: [String: String] = [:]
        for member in query?.split(separator: "&", omittingEmptySubsequences: false) ?? [] {
            let parts = member.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
            guard parts.count == 2, admitted.contains(parts[0]) else {
                throw .badRequest("The member '\(parts[0].prefix(40))' of the query is unknown or has no value.")
            }
            guard members.updateValue(parts[1], forKey: parts[0]) == nil else {
                throw .badRequest("The member '\(parts[0])' of the query occurs twice.")
            }
        }
        return members
    }
}

/// A change requested by an operator: a line of the audit log.
///
/// It names devices by their numbers and never names a person, because a leaked log must not identify anyone.
public struct AdministrationAct: Equatable, Sendable, CustomStringConvertible {
    public enum Outcome: Equatable, Sendable {
        case done
        /// The change has begun. A later line reports the outcome.
        case begun
        /// The change was refused.
        ///
        /// - code: The code of the fault.
        case refused(String)
        /// The store has not reported the outcome and may still make the change.
        ///
        /// - code: The code of the fault.
        case unknown(String)
    }

    /// The constant name for programs, such as `device_revoke`.
    public let name: String
    /// The target in one word. Nil if the name implies it.
    public let target: String?
    public let outcome: Outcome
    /// The client, as in `AdministrationRequest`.
    public let peer: String
    /// A sentence for people.
    public let description: String

    /// Creates a line.
    ///
    /// - Parameter sentence: The change without the client.
    public init(
        _ name: String, _ sentence: String, target: String? = nil, _ outcome: Outcome = .done, by peer: String
    ) {
        self.name = name
        self.target = target
        self.outcome = outcome
        self.peer = peer
        description = "\(sentence), by \(peer)"
    }

    /// Creates a line for a change that was not made, as far as is known.
    ///
    /// - Parameter sentence: The requested change.
    init(_ name: String, _ sentence: String, target: String? = nil, _ fault: AdministrationFault, by peer: String) {
        // A store that answers late may still have executed the command, so "refused" could be wrong.
        if fault == .storeUnavailable {
            self.init(
                name, "\(sentence), whether done or not is unknown: \(fault.error)", target: target,
                .unknown(fault.error), by: peer)
        } else {
            self.init(
                name, "\(sentence) refused: \(fault.error)", target: target, .refused(fault.error), by: peer)
        }
    }
}

/// A message for the administration's log.
public enum AdministrationNotice: Equatable, Sendable {
    case act(AdministrationAct)
    /// A client was refused before its request was handled: client, access point and reason.
    case refused(String)
}
