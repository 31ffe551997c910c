internal import Bytes
internal import Enrolment
internal import EventLoop
internal import HTTP
internal import Server

/// One request and its answer. It is admitted, collected and passed to the handler.
final class FederationExchange: CollectedExchange {
    private let application: FederationApplication
    private var endpoint: FederationEndpoint?
    private var reply: FederationReply?

    init(connection: ServerConnection, application: FederationApplication) {
        self.application = application
        super.init(connection: connection, contentLimit: application.contentLimit)
    }

    // MARK: - Request

    override func headReceived() {
        do throws(FederationFault) {
            try admit()
            if head.expectsContinue { sendContinue() }
        } catch {
            refuse(error)
        }
    }

    private func admit() throws(FederationFault) {
        if let seconds = application.takeRequest(of: connection, now: began) {
            throw FederationFault(
                .temporarilyUnavailable, "there are too many requests from this address", retryAfter: seconds)
        }
        guard let endpoint = FederationEndpoint(path: text(head.path)) else {
            throw FederationFault(.notFound, "there is no such endpoint")
        }
        self.endpoint = endpoint
        guard head.method == endpoint.method else {
            throw FederationFault(
                .invalidRequest, "the endpoint allows only \(endpoint.method.name)", status: 405,
                allowed: "\(endpoint.method.name)")
        }
        // Parameters in a URL would be logged on the way (RFC 6749 section 2.3.1).
        guard head.query == nil else { throw .invalidRequest("the endpoint accepts no query") }
        guard endpoint.content != .none else {
            if head.framing.hasContent { throw .invalidRequest("the endpoint accepts no content") }
            return
        }
        if announcesTooMuch { throw tooLarge }
        let type = field(.contentType)?.split(separator: ";").first?.lowercased()
        let expected = endpoint.content == .form ? "application/x-www-form-urlencoded" : "application/json"
        // A form's type shows that a library has encoded it.
        guard type.map({ $0 == expected }) ?? (endpoint.content == .json || !head.framing.hasContent) else {
            throw FederationFault(.invalidRequest, "the content must be \(expected)", status: 415)
        }
    }

    private func field(_ name: FieldName) -> String? {
        head.fields.first { $0.name == name }.map { text($0.valueRange) }
    }

    private var tooLarge: FederationFault {
        FederationFault(.invalidRequest, "the content is larger than \(contentLimit) bytes", status: 413)
    }

    override func contentExceeded() { refuse(tooLarge) }

    override func contentEnded() {
        guard !isAnswered, let endpoint else { return }
        guard head.fields.count(where: { $0.name == .authorization }) < 2 else {
            return refuse(.invalidRequest("Authorization occurs twice"))
        }
        let reply = FederationReply(to: self)
        self.reply = reply
        application.handler.serve(
            FederationRequest(
                endpoint: endpoint, content: content, authorization: field(.authorization),
                certificate: connection.identity), reply)
    }

    override func requestFaulted(_ fault: MessageFault) {
        let status: UInt16 =
            switch fault.kind {
            case .malformed, .fieldRefused: 400
            case .targetTooLong: 414
            case .headTooLarge: 431
            }
        refuse(FederationFault(.invalidRequest, "the request is refused: \(fault.reason)", status: status))
    }

    override func requestTimedOut() {
        refuse(FederationFault(.invalidRequest, "the request did not arrive in time", status: 408))
    }

    private func refuse(_ fault: FederationFault) {
        if isAnswered { abort() } else { answer(.refusal(fault), fault.error) }
    }

    // MARK: - Response

    /// Answers.
    ///
    /// - Parameter error: Nil if it is no refusal.
    func answer(_ response: FederationResponse, _ error: FederationError?) {
        guard !isAnswered else { return }
        application.answered(endpoint, error, took: Instant.now - began)
        if !send(
            response.status, response.fields.map { ($0.name, $0.value) }, content: response.content,
            date: application.date)
        {
            abort()
        }
    }

    override func ended() {
        reply?.exchange = nil
        reply = nil
        endpoint = nil
        super.ended()
    }
}

/// The reply to one request. It refers to the exchange only until the request ends; a later answer is dropped.
final class FederationReply {
    fileprivate(set) var exchange: FederationExchange?

    init(to exchange: FederationExchange) {
        self.exchange = exchange
    }

    /// Answers. Only the first answer counts.
    func send(_ response: FederationResponse, _ error: FederationError? = nil) {
        guard let exchange else { return }
        self.exchange = nil
        exchange.answer(response, error)
        exchange.advance()
    }
}
