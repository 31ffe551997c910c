internal import Server

/// Who or what has ended a tunnel: for log and metrics.
enum TunnelEnd: Int, CaseIterable {
    /// The client, in order.
    case client
    /// The service, in order.
    case service
    /// The client is gone without a word, or its connection broke.
    case clientLost
    /// The service is, or does not take what there is for it.
    case serviceLost
    /// Nothing has moved for too long.
    case idle
    /// It has lasted for as long as it may.
    case life
    /// What let it open is not so any more, or the client does not take what there is for it: the denial says which.
    case denied
    /// The gateway ends, or the configuration that the tunnel came in under.
    case shutdown

    var name: StaticString {
        switch self {
        case .client: "client"
        case .service: "service"
        case .clientLost: "client_lost"
        case .serviceLost: "service_lost"
        case .idle: "idle"
        case .life: "life"
        case .denied: "denied"
        case .shutdown: "shutdown"
        }
    }
}
