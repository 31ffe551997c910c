internal import Bytes
internal import HTTP
internal import Server

/// One request to the administration and its answer: admitted, collected, handed to its endpoint.
final class AdministrationExchange: CollectedExchange {
    private let endpoints: EndpointTable
    private let door: AdministrationDoor
    private let refusals: AdministrationRefusals
    private var endpoint: AdministrationEndpoint?
    private var parameter = ""
    private var query: [String: String] = [:]
    private var reply: AdministrationReply?

    private static let longestContent = 64 * 1024

    init(
        connection: ServerConnection, endpoints: EndpointTable, door: AdministrationDoor,
        refusals: AdministrationRefusals
    ) {
        self.endpoints = endpoints
        self.door = door
        self.refusals = refusals
        super.init(connection: connection, contentLimit: Self.longestContent)
    }

    // MARK: - The request

    override func headReceived() {
        do throws(AdministrationFault) {
            try admit()
            if head.expectsContinue, !isAnswered { sendContinue() }
        } catch {
            answer(AdministrationResponse(error))
        }
    }

    private func admit() throws(AdministrationFault) {
        try admitClient()
        switch endpoints.find(head.method, text(head.path)) {
        case .unknown: throw .notFound("There is no such endpoint.")
        case .methodRefused(let allowed): return answer(AdministrationResponse(.methodRefused), allowed: allowed)
        case .found(let endpoint, let parameter):
            query = try EndpointTable.members(of: head.query.map(text), admitted: endpoint.query)
            try admitContent(endpoint)
            self.endpoint = endpoint
            self.parameter = parameter
        }
    }

    private func admitClient() throws(AdministrationFault) {
        // A web page that has the address of this server resolved to its own name, or sends a form here, shows itself.
        guard door.hosts.contains(text(head.authority)) else { throw turnedAway(.host, .misdirected) }
        guard !head.fields.contains(where: { $0.name == .origin }) else { throw turnedAway(.origin, .originRefused) }
        if let token = door.token {
            let credentials = head.fields.filter { $0.name == .authorization }.map { text($0.valueRange) }
            guard credentials.count == 1, token.isMeant(by: credentials[0]) else {
                throw turnedAway(.token, .tokenRequired)
            }
        }
        connection.isKnown = true
    }

    private func turnedAway(
        _ reason: AdministrationRefusals.Reason, _ fault: AdministrationFault
    ) -> AdministrationFault {
        refusals.add(reason, connection.clientName, at: door.name, .now)
        return fault
    }

    private func admitContent(_ endpoint: AdministrationEndpoint) throws(AdministrationFault) {
        guard endpoint.takesContent else {
            if head.framing.hasContent { throw .badRequest("The endpoint takes no content.") }
            return
        }
        if announcesTooMuch { throw .contentTooLarge }
        let type = head.fields.first { $0.name == .contentType }.map { text($0.valueRange).lowercased() }
        guard type == "application/json" || type == "application/json; charset=utf-8" else {
            throw .mediaTypeUnsupported
        }
    }

    override func contentExceeded() { answer(AdministrationResponse(.contentTooLarge)) }

    override func contentEnded() {
        guard !isAnswered, let endpoint else { return }
        let reply = AdministrationReply(to: self)
        self.reply = reply
        do throws(AdministrationFault) {
            let request = AdministrationRequest(
                parameter: parameter, query: query, content: content,
                peer: connection.peerUser.map { "user \($0)" } ?? "a client of \(door.name)")
            try endpoint.answer(request, reply)
        } catch {
            reply.send(AdministrationResponse(error))
        }
    }

    override func requestFaulted(_ fault: MessageFault) { refuse(AdministrationFault(fault)) }
    override func requestTimedOut() { refuse(.requestTimeout) }

    private func refuse(_ fault: AdministrationFault) {
        if isAnswered { abort() } else { answer(AdministrationResponse(fault)) }
    }

    // MARK: - The response

    /// - Parameter allowed: the value of Allow, if the response has one.
    func answer(_ response: AdministrationResponse, allowed: String? = nil) {
        guard !isAnswered else { return }
        let isHead = head.method == .head
        let length = UInt64(response.content.count)
        let isSent = sendHead(response.status, content: isHead ? .none : .length(length), statedLength: length) {
            output in
            output.appendField("Content-Type", response.contentType)
            output.appendField("Cache-Control", "no-store")
            if response.status == 401 { output.appendField("WWW-Authenticate", "Bearer realm=\"attestgate\"") }
            if let allowed {
                let allowed = Array(allowed.utf8)
                output.appendField("Allow", allowed.span)
            }
        }
        guard isSent else { return abort() }
        send(isHead ? [] : response.content)
    }

    override func ended() {
        reply?.exchange = nil
        reply = nil
        endpoint = nil
        parameter = ""
        query = [:]
        super.ended()
    }
}

extension ServerConnection {
    /// For the log: the user of a Unix socket, or the address without the port.
    var clientName: String { peerUser.map { "user \($0)" } ?? peer.host }
}
