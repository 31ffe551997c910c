public import HTTP

/// One thing that can be asked of a running gateway: where, how, and what answers.
public struct AdministrationEndpoint {
    let method: HTTP.Method
    let path: [Segment]
    let query: [String]
    let takesContent: Bool
    let access: EndpointAccess
    /// The least that a listener must be for, so that it is served there.
    let level: AdministrationLevel
    /// What it changes, by the name that the audit log has for it; nil if nothing.
    let act: String?
    let answer: (AdministrationRequest, AdministrationReply) throws(AdministrationFault) -> Void

    enum Segment: Equatable {
        case literal(String)
        case parameter
    }

    /// - Parameters:
    ///   - path: segments behind slashes, one of which may be a parameter: `/devices/{id}`.
    ///   - query: names of the query's members that are admitted, all of them optional.
    ///   - takesContent: whether the request has JSON content, or must have none.
    ///   - level: the least that a listener must be for; without it, that depends on whether the method reads.
    ///   - act: the change that it makes, as in `AdministrationAct.name`. Requests that are invalid, or for which it
    ///     throws a fault, are written to the audit log under that name. The endpoint reports every other outcome
    ///     itself.
    ///   - answer: called on the server's loop when the request is complete; answers through the reply, then or later.
    public init(
        _ method: HTTP.Method, _ path: String, query: [String] = [], takesContent: Bool = false,
        level: AdministrationLevel? = nil, act: String? = nil,
        answer: @escaping (AdministrationRequest, AdministrationReply) throws(AdministrationFault) -> Void
    ) {
        self.init(
            method, path, query: query, takesContent: takesContent, access: .operators, level: level, act: act,
            answer: answer)
    }

    /// - Parameter access: whom it is for.
    init(
        _ method: HTTP.Method, _ path: String, query: [String] = [], takesContent: Bool = false, access: EndpointAccess,
        level: AdministrationLevel? = nil, act: String? = nil,
        answer: @escaping (AdministrationRequest, AdministrationReply) throws(AdministrationFault) -> Void
    ) {
        self.method = method
        self.access = access
        self.level = level ?? (method == .get ? .view : .admin)
        self.act = act
        // The root has one segment, an empty one.
        self.path = path.dropFirst().split(separator: "/", omittingEmptySubsequences: false).map {
            $0.hasPrefix("{") ? .parameter : .literal(String($0))
        }
        self.query = query
        self.takesContent = takesContent
        self.answer = answer
    }

    /// - Parameter segments: of a path without empty ones.
    /// - Returns: the parameter, empty if the endpoint has none; nil if the path is another one.
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

/// A complete request, admitted by its endpoint.
public struct AdministrationRequest: Equatable, Sendable {
    /// What stands in the path for the parameter; as sent, not decoded.
    public let parameter: String
    /// By name, each there once; as sent, not decoded.
    public let query: [String: String]
    public let content: [UInt8]
    /// Who asks, for the log: the user of a Unix socket; or with what it was shown that one may, where and from where.
    public let peer: String
    /// The thumbprint of the certificate that was shown; empty if none was.
    let certificate: [UInt8]
    let caller: AdministrationCaller
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

    /// What a browser shows as a page.
    var isPage: Bool { contentType.description.hasPrefix("text/html") }

    func setting(cookie: String) -> AdministrationResponse {
        var response = self
        response.cookie = Array(cookie.utf8)
        return response
    }
}

/// The reply to one request; used on the server's loop.
///
/// Refers to its exchange only while the request is under way: an answer that comes later goes nowhere.
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

/// Which endpoint a request is for.
struct EndpointTable {
    let endpoints: [AdministrationEndpoint]

    enum Outcome {
        case found(AdministrationEndpoint, parameter: String)
        /// The path is known, but not with this method. - allowed: the value of Allow.
        case methodRefused(allowed: String)
        case unknown
    }

    /// - Parameter path: in its one admitted spelling (`TargetSpelling`); an empty last segment makes it another path.
    func find(_ method: HTTP.Method?, _ path: String) -> Outcome {
        let segments = path.split(separator: "/", omittingEmptySubsequences: false).dropFirst().map(String.init)
        let fitting = endpoints.compactMap { endpoint in endpoint.match(segments).map { (endpoint, $0) } }
        if let (endpoint, parameter) = fitting.first(where: { $0.0.method == method }) {
            return .found(endpoint, parameter: parameter)
        }
        guard !fitting.isEmpty else { return .unknown }
        return .methodRefused(allowed: fitting.map { String(describing: $0.0.method.name) }.joined(separator: ", "))
    }

    /// Parts a query into its members.
    ///
    /// - Parameter admitted: their names; any other, or one that is there twice, is refused.
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

/// Something that an operator has asked for and that changes what the gateway does: a line of the audit log.
///
/// It names devices by their numbers, and no person: a log that gets out must lead to nobody.
public struct AdministrationAct: Equatable, Sendable, CustomStringConvertible {
    public enum Outcome: Equatable, Sendable {
        case done
        /// Begun; a later line reports the outcome.
        case begun
        /// - code: of the fault.
        case refused(String)
        /// The store has not said what became of it, and may still do it. - code: of the fault.
        case unknown(String)
    }

    /// What: `device_revoke` and its like. Fixed, for programs.
    public let name: String
    /// To what, in one word; nil if that goes without saying.
    public let target: String?
    public let outcome: Outcome
    /// By whom, as `AdministrationRequest` says it.
    public let peer: String
    /// One sentence, for people.
    public let description: String

    /// - Parameter sentence: without who it was.
    public init(
        _ name: String, _ sentence: String, target: String? = nil, _ outcome: Outcome = .done, by peer: String
    ) {
        self.name = name
        self.target = target
        self.outcome = outcome
        self.peer = peer
        description = "\(sentence), by \(peer)"
    }

    /// One that has not been done, as far as is known.
    ///
    /// - Parameter sentence: what was asked for.
    init(_ name: String, _ sentence: String, target: String? = nil, _ fault: AdministrationFault, by peer: String) {
        // A store that answers late may still have executed the command: "refused" would be wrong where it matters
        // most.
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

/// What the administration tells its log.
public enum AdministrationNotice: Equatable, Sendable {
    case act(AdministrationAct)
    /// Somebody was turned away before anything of the request was looked at; who, where and why.
    case refused(String)
}
