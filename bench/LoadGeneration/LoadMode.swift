/// What one unit of load is.
public enum LoadMode: String, CaseIterable, Sendable {
    /// Requests on connections that are kept open.
    case mtls
    /// A new connection with a full handshake for each request.
    case handshake
    /// A new connection that resumes the session of the one before, for each request.
    case resumed
    /// Connections that made one request and are then held open.
    case idle
    /// Requests that carry a request proof.
    case attested

    /// Whether the connection is closed after each response.
    var closesAfterResponse: Bool { self == .handshake || self == .resumed }
}
