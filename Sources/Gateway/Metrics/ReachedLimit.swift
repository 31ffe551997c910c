internal import Server

/// The limit that left no room for a connection. The client sees no difference, for it gets no answer; but only one of
/// these limits means a crowd.
enum ReachedLimit: Int, CaseIterable {
    /// `limits.connections`.
    case connections
    /// `limits.handshakes`: the connection ended is the oldest in its handshake, not the one that came.
    case handshakes
    /// `listeners.connections`.
    case listener
    /// `limits.connections_per_client`.
    case client
    /// `limits.memory`.
    case memory
    /// `limits.connections_per_source` or `limits.handshakes_per_source`.
    case source

    /// - Returns: nil if the connection was ended for another reason.
    init?(_ refusal: ConnectionRefusal) {
        switch refusal {
        case .limit: self = .connections
        case .handshakeLimit: self = .handshakes
        case .listenerLimit: self = .listener
        case .sourceLimit: self = .source
        case .clientLimit: self = .client
        case .memory: self = .memory
        case .proxyHeader, .handshake, .handshakeTimeout, .certificateExpired, .certificateBarred, .http2: return nil
        }
    }
}
