internal import HTTP

/// The decision about a request, or about a connection refused before any. Members have the meaning of those of the
/// access log. One that does not apply is absent.
public struct DecisionDocument: Codable, Equatable, Sendable {
    /// The number of the decision in this process, from 1.
    public let number: Int
    /// The time in RFC 3339, UTC, with milliseconds.
    public let time: String
    /// The event: `request` or `connection_refused`.
    public let event: String
    /// The client's network, /24 or /48.
    public let client: String
    public let route: String?
    public let method: String?
    public let `protocol`: String?
    public let decision: String?
    public let status: Int?
    /// The code in the denial table, with the table's text.
    public let denial: String?
    public let fault: String?
    public let sentence: String?
    /// The code of the denial against a request that its route only observed.
    public let wouldDeny: String?
    /// A text for people. It may contain what a client sent.
    public let detail: String?
    /// The device's name in logs.
    public let device: String?
    /// The device's number in the registry.
    public let deviceNumber: Int64?
    public let app: String?
    public let upstream: String?
    public let server: String?
    /// The duration in microseconds.
    public let durationUs: Int64?
    public let traceID: String?
    /// True if the client left before the response was complete. Otherwise nil.
    public let aborted: Bool?

    public init(
        number: Int, time: String, event: String, client: String, route: String?, method: String?,
        `protocol`:
            String?, decision: String?, status: Int?, denial: String?, fault: String?, sentence: String?,
        wouldDeny: String? = nil,
        detail:
            String?, device: String?, deviceNumber: Int64?, app: String?, upstream: String?, server: String?,
        durationUs: Int64?, traceID: String?, aborted: Bool?
    ) {
        self.number = number
        self.time = time
        self.event = event
        self.client = client
        self.route = route
        self.method = method
        self.protocol = `protocol`
        self.decision = decision
        self.status = status
        self.denial = denial
        self.fault = fault
        self.sentence = sentence
        self.wouldDeny = wouldDeny
        self.detail = detail
        self.device = device
        self.deviceNumber = deviceNumber
        self.app = app
        self.upstream = upstream
        self.server = server
        self.durationUs = durationUs
        self.traceID = traceID
        self.aborted = aborted
    }

    private enum CodingKeys: String, CodingKey {
        case number, time, event, client, route, method, `protocol`, decision, status, denial, fault, sentence
        case detail, device, app, upstream, server, aborted
        case wouldDeny = "would_deny"
        case deviceNumber = "device_number"
        case durationUs = "duration_us"
        case traceID = "trace_id"
    }
}

/// The decisions after a known one: the answer to `GET /decisions`.
public struct DecisionPage: Codable, Equatable, Sendable {
    /// The number of the last decision, or 0.
    public let last: Int
    /// The number of refusals since the process began that are not listed, because they occurred faster than the client
    /// read them.
    public let leftOut: UInt64
    /// The decisions, oldest first. Missing numbers were displaced by later ones.
    public let decisions: [DecisionDocument]

    public init(last: Int, leftOut: UInt64, decisions: [DecisionDocument]) {
        self.last = last
        self.leftOut = leftOut
        self.decisions = decisions
    }

    private enum CodingKeys: String, CodingKey {
        case last, decisions
        case leftOut = "left_out"
    }
}

/// The page with its origin.
public struct DecisionAnswer: Codable, Equatable, Sendable {
    /// An id that changes with each start of the gateway, when numbers begin again.
    public let run: String
    public let generation: Int
    public let ready: Bool
    /// Workers that did not answer within a second. Their decisions are missing.
    public let silentWorkers: [Int]
    public let page: DecisionPage

    public init(run: String, generation: Int, ready: Bool, silentWorkers: [Int], page: DecisionPage) {
        self.run = run
        self.generation = generation
        self.ready = ready
        self.silentWorkers = silentWorkers
        self.page = page
    }

    private enum CodingKeys: String, CodingKey {
        case run, generation, ready
        case silentWorkers = "silent_workers"
    }

    public init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        run = try members.decode(String.self, forKey: .run)
        generation = try members.decode(Int.self, forKey: .generation)
        ready = try members.decode(Bool.self, forKey: .ready)
        silentWorkers = try members.decode([Int].self, forKey: .silentWorkers)
        page = try DecisionPage(from: decoder)
    }

    /// Encodes one object.
    public func encode(to encoder: any Encoder) throws {
        var members = encoder.container(keyedBy: CodingKeys.self)
        try members.encode(run, forKey: .run)
        try members.encode(generation, forKey: .generation)
        try members.encode(ready, forKey: .ready)
        try members.encode(silentWorkers, forKey: .silentWorkers)
        try page.encode(to: encoder)
    }
}

extension AdministrationEndpoint {
    /// Returns the endpoint `GET /decisions`.
    ///
    /// - Parameter collect: Collects the decisions after this number from the workers, and calls the completion once.
    public static func decisions(
        collecting collect: @escaping (_ after: Int, _ completion: @escaping (DecisionAnswer) -> Void) -> Void
    ) -> AdministrationEndpoint {
        AdministrationEndpoint(.get, "/decisions", query: ["after"]) { request, reply throws(AdministrationFault) in
            var after = 0
            if let text = request.query["after"] {
                guard let number = Int(text), number >= 0, String(number) == text else {
                    throw .badRequest("'after' must be the number of a decision, or 0.")
                }
                after = number
            }
            collect(after) { reply.send(AdministrationResponse(json: $0)) }
        }
    }
}
