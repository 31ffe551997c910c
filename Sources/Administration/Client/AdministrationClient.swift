internal import Bytes
public import EventLoop
internal import HTTP
internal import Registry
internal import Vocabulary

/// Speaks to the administration of a running gateway. Blocks the thread, but never for longer than its patience.
public struct AdministrationClient: Sendable {
    let socketPath: String
    private let patience: TimeSpan

    /// - Parameter patience: for a whole operation.
    public init(socketPath: String, patience: TimeSpan = .seconds(10)) {
        self.socketPath = socketPath
        self.patience = patience
    }

    public func perform(_ operation: DeviceOperation) throws(AdministrationClientError) -> DeviceAnswer {
        let content = try answered(operation.request)
        guard let answer = try? operation.answer(content) else { throw .malformed }
        return answer
    }

    /// The absolute path of the conf file that the gateway was started with, and reads in every reload.
    public func configurationFile() throws(AdministrationClientError) -> String {
        let content = try answered(ClientRequest(.get, "/reload"))
        guard let file = (try? JSONText.decode([String: String].self, from: content))?["file"] else {
            throw .malformed
        }
        return file
    }

    /// Reloads the gateway's configuration.
    ///
    /// - Returns: the configuration that the gateway serves afterwards.
    public func reload() throws(AdministrationClientError) -> ReloadDocument {
        let content = try answered(ClientRequest(.post, "/reload"))
        guard let document = try? JSONText.decode(ReloadDocument.self, from: content) else { throw .malformed }
        return document
    }

    /// Has the gateway give way to a new process. - Returns: the process that serves then.
    public func upgrade() throws(AdministrationClientError) -> Int {
        let content = try answered(ClientRequest(.post, "/upgrade"))
        guard let process = (try? JSONText.decode([String: Int].self, from: content))?["process"] else {
            throw .malformed
        }
        return process
    }

    /// Makes the gateway reopen its log file.
    ///
    /// - Returns: false if the gateway writes no log file.
    public func reopenLogs() throws(AdministrationClientError) -> Bool {
        let content = try answered(ClientRequest(.post, "/logs/reopen"))
        guard let isFile = (try? JSONText.decode([String: Bool].self, from: content))?["reopened"] else {
            throw .malformed
        }
        return isFile
    }

    /// What Prometheus would scrape.
    public func metrics() throws(AdministrationClientError) -> String {
        String(decoding: try answered(ClientRequest(.get, "/metrics")), as: UTF8.self)
    }

    /// How the gateway fares.
    public func status() throws(AdministrationClientError) -> StatusDocument {
        let content = try answered(ClientRequest(.get, "/status"))
        guard let status = try? JSONText.decode(StatusDocument.self, from: content) else { throw .malformed }
        return status
    }

    /// Has the store draw a fresh epoch: every challenge and nonce handed out before is refused from then on.
    public func renewEpoch() throws(AdministrationClientError) {
        _ = try answered(ClientRequest(.post, "/registry/renew-epoch"))
    }

    /// Has the registry revoke somebody's devices, and bar new ones. - Returns: those that were not revoked before.
    public func revoke(_ subject: SubjectName) throws(AdministrationClientError) -> [DeviceDocument] {
        let content = try answered(ClientRequest(.post, "/subjects/revoke", content: subject.json))
        guard let page = try? JSONText.decode(DevicePage.self, from: content) else { throw .malformed }
        return page.devices
    }

    /// Draws the number of the next revocation list.
    func drawRevocationListNumber() throws(AdministrationClientError) -> Int64 {
        let content = try answered(ClientRequest(.post, "/certificates/revocation-list-number"))
        guard let number = (try? JSONText.decode([String: Int64].self, from: content))?["number"] else {
            throw .malformed
        }
        return number
    }

    /// Those of the next certificates that are revoked. - Parameter after: where the page before ended.
    func revokedCertificates(
        after: CertificateSerial?
    ) throws(AdministrationClientError) -> (certificates: [RevokedCertificate], next: CertificateSerial?) {
        let query = after.map { "?after=\($0)" } ?? ""
        let content = try answered(ClientRequest(.get, "/certificates/revoked" + query))
        guard let page = try? JSONText.decode(RevokedCertificatesDocument.self, from: content),
            let read = page.read()
        else { throw .malformed }
        return read
    }

    /// Some of an export.
    func exportPage(from cursor: ExportCursor) throws(AdministrationClientError) -> ExportPageDocument {
        let content = try answered(ClientRequest(.get, "/registry/export?from=\(cursor)"))
        guard let page = ExportPageDocument(content) else { throw .malformed }
        return page
    }

    private func answered(_ request: ClientRequest) throws(AdministrationClientError) -> [UInt8] {
        let (status, content) = try send(request)
        guard status < 300 else {
            guard let fault = try? AdministrationFault(status: status, content: content) else { throw .malformed }
            throw .refused(fault)
        }
        return content
    }

    func send(_ request: ClientRequest) throws(AdministrationClientError) -> (status: UInt16, content: [UInt8]) {
        let conversation: ClientConversation
        let loop: Loop
        do throws(EventLoopError) {
            loop = try Loop()
            let address = try SocketAddress(unixPath: socketPath)
            conversation = ClientConversation(
                loop: loop, socket: try Socket.connect(to: address), request: request, patience: patience)
        } catch {
            switch error {
            // No file, nobody behind it, or something that takes no connections of this kind.
            case .system("connect", let errno): throw .unreachable(errno: errno)
            default: throw .failed("\(error)")
            }
        }
        loop.run()
        return try conversation.outcome.get()
    }
}

/// Why an operation came to nothing.
public enum AdministrationClientError: Error, Equatable, Sendable {
    /// Nobody serves the socket, or this user may not reach it.
    case unreachable(errno: Int32)
    /// The gateway refused.
    case refused(AdministrationFault)
    /// No answer in time. - mayHaveChanged: a change was asked for, which may have been made; who only reads changes nothing.
    case timeout(mayHaveChanged: Bool)
    /// The connection broke before the answer.
    case disconnected(mayHaveChanged: Bool)
    /// What answered is no administration of ours.
    case malformed
    case failed(String)
}
