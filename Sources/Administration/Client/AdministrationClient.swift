internal import Bytes
public import EventLoop
internal import HTTP
internal import Registry
internal import Vocabulary

/// A client of a running gateway's administration. It blocks the thread for a limited time.
public struct AdministrationClient: Sendable {
    let socketPath: String
    private let patience: TimeSpan

    /// Creates a client.
    ///
    /// - Parameter patience: The timeout of a whole operation.
    public init(socketPath: String, patience: TimeSpan = .seconds(10)) {
        self.socketPath = socketPath
        self.patience = patience
    }

    public func perform(_ operation: DeviceOperation) throws(AdministrationClientError) -> DeviceAnswer {
        let content = try answered(operation.request)
        guard let answer = try? operation.answer(content) else { throw .malformed }
        return answer
    }

    /// Returns the absolute path of the gateway's conf file, which every reload reads.
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

    /// Starts a new process that replaces the gateway.
    ///
    /// - Returns: the id of the process that then serves.
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

    /// Returns the metrics in Prometheus' format.
    public func metrics() throws(AdministrationClientError) -> String {
        String(decoding: try answered(ClientRequest(.get, "/metrics")), as: UTF8.self)
    }

    /// Returns the gateway's status.
    public func status() throws(AdministrationClientError) -> StatusDocument {
        let content = try answered(ClientRequest(.get, "/status"))
        guard let status = try? JSONText.decode(StatusDocument.self, from: content) else { throw .malformed }
        return status
    }

    /// Draws a new epoch of the store. All earlier challenges and nonces become invalid.
    public func renewEpoch() throws(AdministrationClientError) {
        _ = try answered(ClientRequest(.post, "/registry/renew-epoch"))
    }

    /// Revokes a subject's devices and prevents new ones.
    ///
    /// - Returns: the devices that were not revoked before.
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

    /// Returns revoked certificates of the next page.
    ///
    /// - Parameter after: The end of the previous page.
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

    /// Returns a page of an export.
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
            // There is no file, no listener, or a socket of another kind.
            case .system("connect", let errno): throw .unreachable(errno: errno)
            default: throw .failed("\(error)")
            }
        }
        loop.run()
        return try conversation.outcome.get()
    }

    /// Performs an operation with the errors of the command line.
    func administer(_ operation: DeviceOperation) throws(DeviceAdministrationError) -> DeviceAnswer {
        do throws(AdministrationClientError) {
            return try perform(operation)
        } catch {
            if case .refused(let fault) = error { throw .refused(fault) }
            throw .gateway(socket: socketPath, error)
        }
    }
}

/// The reason why an operation failed.
public enum AdministrationClientError: Error, Equatable, Sendable {
    /// No process listens at the socket, or this user may not connect.
    case unreachable(errno: Int32)
    /// The gateway refused.
    case refused(AdministrationFault)
    /// There was no answer in time.
    ///
    /// - mayHaveChanged: Whether a change was requested, which may have been made.
    case timeout(mayHaveChanged: Bool)
    /// The connection ended before the answer.
    case disconnected(mayHaveChanged: Bool)
    /// The answer is not from an administration of this program.
    case malformed
    case failed(String)
}
