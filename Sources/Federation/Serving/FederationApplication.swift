internal import Encoding
internal import Enrolment
internal import EventLoop
internal import HTTP
internal import Server
internal import TLS

/// The handler of connections and requests of one generation's listeners.
final class FederationApplication: Application {
    let handler: FederationHandler
    let contentLimit: Int
    private let rates: AddressLimits.Rates
    private let shared: FederationShared
    private var dateField = DateField()

    init(_ handler: FederationHandler, _ contentLimit: Int, _ rates: AddressLimits.Rates, _ shared: FederationShared) {
        self.handler = handler
        self.contentLimit = contentLimit
        self.rates = rates
        self.shared = shared
    }

    override func makeExchange(for connection: ServerConnection) -> Exchange {
        FederationExchange(connection: connection, application: self)
    }

    override func admits(_ connection: ServerConnection) -> Bool {
        shared.limits.openConnection(of: connection.peer.block, rates)
    }

    override func connectionClosed(_ connection: ServerConnection) {
        shared.limits.closeConnection(of: connection.peer.block)
    }

    override func connectionRefused(_ connection: ServerConnection, _ refusal: ConnectionRefusal) {
        switch refusal {
        case .limit, .listenerLimit, .sourceLimit, .clientLimit, .handshakeLimit, .memory, .http2:
            shared.count { $0.connectionsLimited += 1 }
        case .handshake, .handshakeTimeout, .proxyHeader: shared.count { $0.handshakesFailed += 1 }
        // Of connections that were served. Every peer is admitted.
        case .certificateExpired, .certificateBarred, .peer: break
        }
    }

    override func handshakeCompleted(_ connection: ServerConnection, _ recognition: TLSStream.Recognition) {
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

    func answered(_ endpoint: FederationEndpoint?, _ error: FederationError?, took: TimeSpan) {
        shared.count { $0.answered(endpoint, error, nanoseconds: took.nanoseconds) }
    }
}
