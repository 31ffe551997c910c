internal import Encoding
internal import EventLoop
internal import Gateway
internal import Server
internal import TLS
internal import Vocabulary

/// The handler of connections and requests of one generation's listeners.
final class EnrolmentApplication: Application {
    let handler: EnrolmentHandler
    let contentLimit: Int
    private let rates: AddressLimits.Rates
    private let shared: EnrolmentShared
    private let audit: EnrolmentAudit
    /// Whether each listener is for enrolled devices.
    private let servesDevices: [Bool]
    private var dateField = DateField()

    /// - Parameter servesDevices: Whether each listener is for enrolled devices. Others are not.
    init(
        handler: EnrolmentHandler, contentLimit: Int, rates: AddressLimits.Rates, shared: EnrolmentShared,
        audit: EnrolmentAudit, servesDevices: [Bool] = []
    ) {
        self.audit = audit
        self.servesDevices = servesDevices
        self.handler = handler
        self.contentLimit = contentLimit
        self.rates = rates
        self.shared = shared
    }

    func servesDevices(on connection: ServerConnection) -> Bool {
        servesDevices.indices.contains(connection.listener) && servesDevices[connection.listener]
    }

    override func makeExchange(for connection: ServerConnection) -> Exchange {
        EnrolmentServerExchange(connection: connection, application: self)
    }

    override func admits(_ connection: ServerConnection) -> Bool {
        shared.limits.openConnection(of: connection.peer.block, rates)
    }

    override func connectionClosed(_ connection: ServerConnection) {
        shared.limits.closeConnection(of: connection.peer.block)
    }

    override func connectionRefused(_ connection: ServerConnection, _ refusal: ConnectionRefusal) {
        switch refusal {
        case .limit, .listenerLimit, .sourceLimit, .clientLimit, .handshakeLimit, .memory:
            shared.count { $0.connectionsLimited += 1 }
        case .http2: shared.count { $0.connectionsBroken += 1 }
        case .proxyHeader: shared.count { $0.proxyHeadersRefused += 1 }
        case .handshake, .handshakeTimeout: shared.count { $0.handshakesFailed += 1 }
        // Of connections that were served. Every peer is admitted.
        case .certificateExpired, .certificateBarred, .peer: break
        }
        if case .handshake(.clientCertificate(let fault)) = refusal { certificateRefused(fault) }
    }

    private func certificateRefused(_ fault: ClientCertificateFault) {
        audit.decided(
            "connection", EnrolmentSubject(),
            .refused(.denied(Denial(fault.kind), detail: fault.reason, component: nil)),
            now: WallClock.seconds)
    }

    override func handshakeCompleted(_ connection: ServerConnection, _ recognition: TLSStream.Recognition) {
        // An authority of ours vouches for the client. The registry vouches for self-signed certificates.
        if connection.identity?.kind == .issued { connection.authenticated() }
    }

    /// Counts one request.
    ///
    /// - Returns: nil if it is permitted, else the number of seconds until one is.
    func takeRequest(of connection: ServerConnection, now: Instant) -> Int? {
        let wait = shared.limits.takeRequest(of: connection.peer.block, rates, now: now)
        if wait != nil { shared.count { $0.requestsLimited += 1 } }
        return wait
    }

    /// The present value of a Date field.
    var date: [UInt8] { Array(dateField.value(at: WallClock.seconds).utf8) }

    func answered(_ endpoint: EnrolmentEndpoint?, _ error: EnrolmentError?, took: TimeSpan) {
        shared.count { $0.answered(endpoint, error, nanoseconds: took.nanoseconds) }
    }
}
