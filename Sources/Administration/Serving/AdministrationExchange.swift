internal import Bytes
internal import Encoding
internal import EventLoop
internal import HTTP
internal import Server
internal import TLS
internal import Vocabulary

/// One request to the administration and its answer. It is authenticated, collected and passed to its endpoint.
final class AdministrationExchange: CollectedExchange {
    private let application: AdministrationApplication
    private var accessPoint: AccessPoint { application.accessPoint }
    private var sessions: PageSessions? { application.sessions }
    private var caller = AdministrationCaller.unidentified
    private var endpoint: AdministrationEndpoint?
    private var parameter = ""
    private var query: [String: String] = [:]
    private var reply: AdministrationReply?

    private static let longestContent = 64 * 1024

    init(connection: ServerConnection, application: AdministrationApplication) {
        self.application = application
        super.init(connection: connection, contentLimit: Self.longestContent)
    }

    // MARK: - Request

    override func headReceived() {
        do throws(AdministrationFault) {
            try admit()
            if head.expectsContinue, !isAnswered { sendContinue() }
        } catch {
            answer(AdministrationResponse(error))
        }
    }

    private func admit() throws(AdministrationFault) {
        let outcome = application.endpoints.find(head.method, text(head.path))
        try admitClient(outcome)
        switch outcome {
        case .unknown: throw .notFound("There is no such endpoint.")
        case .methodRefused(let allowed): return answer(AdministrationResponse(.methodRefused), allowed: allowed)
        case .found(let endpoint, let parameter):
            do throws(AdministrationFault) {
                guard endpoint.level <= accessPoint.level else { throw turnedAway(.level, .levelRefused) }
                query = try EndpointTable.members(of: head.query.map(text), admitted: endpoint.query)
                try admitContent(endpoint)
            } catch {
                throw logged(error, of: endpoint)
            }
            self.endpoint = endpoint
            self.parameter = parameter
        }
    }

    /// Authenticates the client before any other answer, even about a missing endpoint.
    private func admitClient(_ outcome: EndpointTable.Outcome) throws(AdministrationFault) {
        try admitLate()
        let access = if case .found(let endpoint, _) = outcome { endpoint.access } else { EndpointAccess.operators }
        var shown = PresentedCredentials(head, cookieName: sessions?.cookieName, text: text)
        shown.certificate = connection.identity?.thumbprint ?? []
        let verdict = accessPoint.authenticate(
            shown, for: access, changes: head.method != .get, sessions: sessions, at: WallClock.seconds)
        switch verdict {
        case .success(let caller):
            self.caller = caller
            if caller != .unidentified { connection.authenticated() }
        case .failure(let refused): throw turnedAway(refused.reason, refused.fault)
        }
    }

    /// Authenticates again when the request is complete. Token or certificates may have been replaced meanwhile, and
    /// credentials of a replaced access point are invalid. A request that was complete before is answered.
    private func admitLate() throws(AdministrationFault) {
        if connection.isEnding { throw .accessPointReplaced }
    }

    private func turnedAway(
        _ reason: AdministrationRefusals.Reason, _ fault: AdministrationFault
    ) -> AdministrationFault {
        application.refusals.add(reason, connection.clientName, at: accessPoint.name, .now)
        return fault
    }

    /// Writes a refused change to the audit log, because the client requested it.
    private func logged(_ fault: AdministrationFault, of endpoint: AdministrationEndpoint) -> AdministrationFault {
        if let act = endpoint.act {
            application.audit(AdministrationAct(act, act.replacing("_", with: " "), fault, by: peer))
        }
        return fault
    }

    private func admitContent(_ endpoint: AdministrationEndpoint) throws(AdministrationFault) {
        guard endpoint.takesContent else {
            if head.framing.hasContent { throw .badRequest("The endpoint accepts no content.") }
            return
        }
        if announcesTooMuch { throw .contentTooLarge }
        let type = head.fields.first { $0.name == .contentType }.map { text($0.valueRange).lowercased() }
        guard type == "application/json" || type == "application/json; charset=utf-8" else {
            throw .mediaTypeUnsupported
        }
    }

    override func contentExceeded() {
        let fault = AdministrationFault.contentTooLarge
        answer(AdministrationResponse(endpoint.map { logged(fault, of: $0) } ?? fault))
    }

    override func contentEnded() {
        guard !isAnswered, let endpoint else { return }
        let reply = AdministrationReply(to: self)
        self.reply = reply
        do throws(AdministrationFault) {
            try admitLate()
            let request = AdministrationRequest(
                parameter: parameter, query: query, content: content,
                peer: peer, certificate: connection.identity?.thumbprint ?? [], caller: caller,
                level: accessPoint.level)
            try endpoint.answer(request, reply)
        } catch {
            // The token was wrong when signing in.
            if error == .tokenRequired { _ = turnedAway(.token, error) }
            reply.send(AdministrationResponse(logged(error, of: endpoint)))
        }
    }

    /// The client for the log.
    private var peer: String {
        if let user = connection.peerUser { return "user \(user)" }
        var proofs: [String] = []
        switch caller {
        case .session(let session): proofs.append("session \(session.name)")
        case .token: proofs.append("the token")
        case .unidentified where accessPoint.token != nil: proofs.append("the token")
        case .admitted, .unidentified: break
        }
        if let identity = connection.identity {
            proofs.append("the certificate \(Hexadecimal.encode(identity.thumbprint))")
        }
        return "\(proofs.joined(separator: " and ")) at \(accessPoint.name), from \(connection.clientName)"
    }

    override func requestFaulted(_ fault: MessageFault) { refuse(AdministrationFault(fault)) }
    override func requestTimedOut() { refuse(.requestTimeout) }

    private func refuse(_ fault: AdministrationFault) {
        if isAnswered { abort() } else { answer(AdministrationResponse(fault)) }
    }

    // MARK: - Response

    /// Answers.
    ///
    /// - Parameter allowed: The value of Allow, if the response has one.
    func answer(_ response: AdministrationResponse, allowed: String? = nil) {
        guard !isAnswered else { return }
        let isHead = head.method == .head
        let length = UInt64(response.content.count)
        let isSent = sendHead(response.status, content: isHead ? .none : .length(length), statedLength: length) {
            output in
            output.appendField("Content-Type", response.contentType)
            output.appendField("Cache-Control", "no-store")
            SecurityFields.append(to: &output, isPage: response.isPage)
            if let cookie = response.cookie { output.appendField("Set-Cookie", cookie.span) }
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
        caller = .unidentified
        super.ended()
    }
}

extension ServerConnection {
    /// The client for the log: the user of a Unix socket, or the address without the port.
    var clientName: String { peerUser.map { "user \($0)" } ?? peer.host }
}

/// Fields that restrict the use of an answer in browsers.
private enum SecurityFields {
    /// Appends the fields.
    ///
    /// - Parameter isPage: Whether the answer is the page itself, which may load only files beside it. It contains no
    ///   script or style and makes no markup of text, so a client's text stays text.
    static func append(to output: inout ByteBuffer, isPage: Bool) {
        output.appendField("Content-Security-Policy", isPage ? pagePolicy : dataPolicy)
        output.appendField("X-Content-Type-Options", "nosniff")
        output.appendField("X-Frame-Options", "DENY")
        output.appendField("Referrer-Policy", "no-referrer")
        output.appendField("Cross-Origin-Resource-Policy", "same-origin")
        guard isPage else { return }
        output.appendField("Cross-Origin-Opener-Policy", "same-origin")
        output.appendField("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
    }

    private static let pagePolicy: StaticString = """
        default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; \
        form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'
        """
    private static let dataPolicy: StaticString = "default-src 'none'; frame-ancestors 'none'"
}
