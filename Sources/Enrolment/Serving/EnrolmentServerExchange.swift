internal import Bytes
internal import EventLoop
internal import HTTP
internal import Server
internal import Vocabulary

/// One request and its answer. It is admitted, collected and passed to the handler.
final class EnrolmentServerExchange: CollectedExchange {
    private let application: EnrolmentApplication
    private var endpoint: EnrolmentEndpoint?
    private var reply: EnrolmentReply?

    init(connection: ServerConnection, application: EnrolmentApplication) {
        self.application = application
        super.init(connection: connection, contentLimit: application.contentLimit)
    }

    // MARK: - Request

    override func headReceived() {
        do throws(EnrolmentRequestFault) {
            try admit()
            if head.expectsContinue { sendContinue() }
        } catch {
            refuse(error)
        }
    }

    private func admit() throws(EnrolmentRequestFault) {
        if let seconds = application.takeRequest(of: connection, now: began) {
            throw .tooManyRequests(retryAfter: seconds)
        }
        guard let endpoint = EnrolmentEndpoint(path: text(head.path), head.method),
            application.handler.serves(endpoint),
            endpoint.isServed(toDevices: application.servesDevices(on: connection))
        else { throw .endpointUnknown }
        self.endpoint = endpoint
        guard head.method == endpoint.method else { throw .methodRefused(allowed: endpoint.allowed) }
        guard head.query == nil || endpoint.hasQuery else { throw .queryRefused }
        guard endpoint.hasContent else {
            if head.framing.hasContent { throw .contentRefused }
            return
        }
        if announcesTooMuch { throw tooLarge }
        // Content without a type is accepted. A form's type shows that a library has encoded it.
        let type = head.fields.first { $0.name == .contentType }.map { text($0.valueRange).lowercased() }
        let essence = endpoint.hasForm ? "application/x-www-form-urlencoded" : "application/json"
        let admitted = [essence, "\(essence); charset=utf-8", "\(essence);charset=utf-8"]
        if let type, !admitted.contains(type) { throw .mediaTypeRefused(essence) }
    }

    private var tooLarge: EnrolmentRequestFault { .contentTooLarge(limit: contentLimit) }

    override func contentExceeded() { refuse(tooLarge) }

    override func contentEnded() {
        guard !isAnswered, let endpoint else { return }
        let reply = EnrolmentReply(to: self)
        self.reply = reply
        let request = EnrolmentRequest(
            endpoint: endpoint, content: content,
            instance: endpoint == .instance ? EnrolmentEndpoint.instance(path: text(head.path)) : nil,
            query: Array((head.query.map(text) ?? "").utf8), certificate: connection.identity)
        application.handler.serve(request, reply)
    }

    override func requestFaulted(_ fault: MessageFault) { refuse(.malformed(fault)) }
    override func requestTimedOut() { refuse(.timeout) }

    private func refuse(_ fault: EnrolmentRequestFault) {
        if isAnswered { abort() } else { answer(EnrolmentResponse.refusal(fault), fault.error) }
    }

    // MARK: - Response

    /// Answers.
    ///
    /// - Parameter error: The row of a refusal. Nil if it is none.
    func answer(_ response: EnrolmentResponse, _ error: EnrolmentError?) {
        guard !isAnswered else { return }
        application.answered(endpoint, error, took: Instant.now - began)
        let fields = response.fields.map { ($0.name, $0.value) }
        if !send(response.status, fields, content: response.content, date: application.date) { abort() }
    }

    override func ended() {
        reply?.exchange = nil
        reply = nil
        endpoint = nil
        super.ended()
    }
}

/// The reply to one request. It refers to the exchange only until the request ends; a later answer is dropped.
final class EnrolmentReply {
    fileprivate(set) var exchange: EnrolmentServerExchange?

    init(to exchange: EnrolmentServerExchange) {
        self.exchange = exchange
    }

    /// Answers. Only the first answer counts.
    func send(_ response: EnrolmentResponse, _ error: EnrolmentError? = nil) {
        guard let exchange else { return }
        self.exchange = nil
        exchange.answer(response, error)
        exchange.advance()
    }
}
