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
    /// - Parameter completion: Called once, later, unless the call is stopped.
    /// - Returns: nil if nothing can be read at such a URL. Then `completion` is not called.
    package func discover(then completion: @escaping (Result<String, InquiryFailure>) -> Void) -> OutboundCall? {
        guard let target = DecisionMetadata.path(of: settings.url) else { return nil }
        let url = settings.url
        let call = OutboundCall(
            OutboundRequest(get: target, host: settings.host, fields: [(name: "Accept", value: "application/json")]),
            on: pool, loop: loop, contentLimit: PolicyDecision.contentLimit, isRepeatable: true
        ) { result in
            switch result {
            case .failure(let failure): completion(.failure(.metadata(failure.reason)))
            case .success(let answer):
                let path = DecisionMetadata.endpoint(
                    status: answer.status, contentType: answer.contentType, content: answer.content.span, url: url)
                completion(path.mapError { .metadata($0.reason) })
            }
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
    /// Its metadata is not known, for this reason.
    case metadata(String)
    /// A pseudonym cannot be computed, or the device's record has left the memory.
    case facts
    /// The client has as many questions under way as one may have.
    case tooMany

    package var reason: String {
        switch self {
        case .question(let fault): "\(fault.reason)"
        case .answer(let fault): fault.reason
        case .call(let failure): failure.reason
        case .metadata(let reason): "its metadata is not known: \(reason)"
        case .facts: "what is known of the device cannot be read"
        case .tooMany: "the client has too many questions under way"
        }
    }
}
