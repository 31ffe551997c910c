package import EventLoop
package import Policy
package import Upstream

/// Calls to one decision point over a pool of connections.
package struct DecisionCalls {
    let settings: DecisionPointSettings
    let pool: UpstreamPool
    private let loop: Loop

    private static let discoveryTimeout = TimeSpan.seconds(5)

    package init(_ settings: DecisionPointSettings, on pool: UpstreamPool, loop: Loop) {
        self.settings = settings
        self.pool = pool
        self.loop = loop
    }

    /// Asks for a decision.
    ///
    /// - Parameters:
    ///   - path: The path of decisions.
    ///   - identifier: The value of X-Request-ID; nil for none.
    ///   - completion: Called once, later, unless the call is stopped.
    package func ask(
        _ document: [UInt8], at path: String, _ identifier: String?,
        then completion: @escaping (Result<PolicyDecision, InquiryFailure>) -> Void
    ) -> OutboundCall {
        var fields = [(name: "Content-Type", value: "application/json"), (name: "Accept", value: "application/json")]
        if let identifier { fields.append((name: "X-Request-ID", value: identifier)) }
        if let token = settings.token { fields.append((name: "Authorization", value: "Bearer \(token)")) }
        let format = settings.decision.format
        let call = OutboundCall(
            OutboundRequest(post: path, host: settings.host, fields: fields, content: document), on: pool, loop: loop,
            contentLimit: PolicyDecision.contentLimit, isRepeatable: true
        ) { result in
            switch result {
            case .failure(let failure): completion(.failure(.call(failure)))
            case .success(let answer):
                let decision = PolicyDecision.parse(
                    status: answer.status, contentType: answer.contentType, content: answer.content.span, format: format
                )
                completion(decision.mapError { .answer($0) })
            }
        }
        call.start(timeout: settings.timeout)
        return call
    }

    /// Reads the path of decisions in the metadata.
    ///
    /// - Parameter completion: Called once, later, unless the call is stopped. Nil if the metadata cannot be read, or is
    ///   not that of the decision point.
    /// - Returns: nil if the settings have the path, or no metadata can be read.
    package func discover(then completion: @escaping (String?) -> Void) -> OutboundCall? {
        guard settings.path == nil, let target = DecisionMetadata.path(of: settings.url) else { return nil }
        let url = settings.url
        let call = OutboundCall(
            OutboundRequest(get: target, host: settings.host, fields: [(name: "Accept", value: "application/json")]),
            on: pool, loop: loop, contentLimit: PolicyDecision.contentLimit, isRepeatable: true
        ) { result in
            guard case .success(let answer) = result,
                case .success(let path) = DecisionMetadata.endpoint(
                    status: answer.status, contentType: answer.contentType, content: answer.content.span, url: url)
            else { return completion(nil) }
            completion(path)
        }
        call.start(timeout: Self.discoveryTimeout)
        return call
    }
}

/// Why a decision point gave no decision.
package enum InquiryFailure: Error {
    /// The question cannot be asked: something that its mapping needs is not known.
    case question(QuestionFault)
    case answer(DecisionFault)
    case call(OutboundFailure)
    /// Its metadata is not known.
    case metadata
    /// A pseudonym cannot be computed, or the device's record has left the memory.
    case facts

    package var reason: String {
        switch self {
        case .question(let fault): "\(fault.reason)"
        case .answer(let fault): fault.reason
        case .call(let failure): failure.reason
        case .metadata: "its metadata is not known"
        case .facts: "what is known of the device cannot be read"
        }
    }
}
