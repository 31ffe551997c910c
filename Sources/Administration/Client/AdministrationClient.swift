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
        try member("file", of: ClientRequest(.get, "/reload"))
    }

    /// Reloads the gateway's configuration.
    ///
    /// - Returns: the configuration that the gateway serves afterwards.
    public func reload() throws(AdministrationClientError) -> ReloadDocument {
        try document(ClientRequest(.post, "/reload"))
    }

    /// Starts a new process that replaces the gateway.
    ///
    /// - Returns: the id of the process that then serves.
    public func upgrade() throws(AdministrationClientError) -> Int {
        try member("process", of: ClientRequest(.post, "/upgrade"))
    }

    /// Makes the gateway reopen its log file.
    ///
    /// - Returns: false if the gateway writes no log file.
    public func reopenLogs() throws(AdministrationClientError) -> Bool {
        try member("reopened", of: ClientRequest(.post, "/logs/reopen"))
    }

    /// Returns the metrics in Prometheus' format.
    public func metrics() throws(AdministrationClientError) -> String {
        String(decoding: try answered(ClientRequest(.get, "/metrics")), as: UTF8.self)
    }

    /// Returns the gateway's status.
    public func status() throws(AdministrationClientError) -> StatusDocument {
        try document(ClientRequest(.get, "/status"))
    }

    /// Lists or changes services of the federation.
    public func perform(_ operation: ServiceOperation) throws(AdministrationClientError) -> ServiceList {
        switch operation {
        case .list: try document(ClientRequest(.get, "/services"))
        case .approve(let id): try document(ClientRequest(.post, "/services/\(id)/approve"))
        case .remove(let id): try document(ClientRequest(.post, "/services/\(id)/remove"))
        }
    }

    /// Draws a new epoch of the store. All earlier challenges and nonces become invalid.
    public func renewEpoch() throws(AdministrationClientError) {
        _ = try answered(ClientRequest(.post, "/registry/renew-epoch"))
    }

    /// Revokes a subject's devices and prevents new ones.
    ///
    /// - Returns: the devices that were not revoked before.
    public func revoke(_ subject: SubjectName) throws(AdministrationClientError) -> [DeviceDocument] {
        let page: DevicePage = try document(ClientRequest(.post, "/subjects/revoke", content: subject.json))
        return page.devices
    }

    /// Draws the number of the next revocation list.
    func drawRevocationListNumber() throws(AdministrationClientError) -> Int64 {
        try member("number", of: ClientRequest(.post, "/certificates/revocation-list-number"))
    }

    /// Returns revoked certificates of the next page.
    ///
    /// - Parameter after: The end of the previous page.
    func revokedCertificates(
        after: CertificateSerial?
    ) throws(AdministrationClientError) -> (certificates: [RevokedCertificate], next: CertificateSerial?) {
        let query = after.map { "?after=\($0)" } ?? ""
        let page: RevokedCertificatesDocument = try document(ClientRequest(.get, "/certificates/revoked" + query))
        guard let read = page.read() else { throw .malformed }
        return read
    }

    /// Returns a page of an export.
    func exportPage(from cursor: ExportCursor) throws(AdministrationClientError) -> ExportPageDocument {
        let content = try answered(ClientRequest(.get, "/registry/export?from=\(cursor)"))
        guard let page = ExportPageDocument(content) else { throw .malformed }
        return page
    }

    /// Returns the document that answers the request.
    private func document<Document: Decodable>(_ request: ClientRequest) throws(AdministrationClientError) -> Document {
        let content = try answered(request)
        guard let document = try? JSONText.decode(Document.self, from: content) else { throw .malformed }
        return document
    }

    /// Returns a member of the object that answers the request.
    private func member<Value: Decodable>(
        _ name: String, of request: ClientRequest
    ) throws(AdministrationClientError) -> Value {
        let members: [String: Value] = try document(request)
        guard let value = members[name] else { throw .malformed }
        return value
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
            throw DeviceAdministrationError(error, of: socketPath)
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
