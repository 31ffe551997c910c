/// How a request can fail, as far as the client can tell.
public enum FailureKind: String, CaseIterable, Sendable {
    /// No connection came about.
    case connect
    /// The TLS handshake or a record was refused, by either side.
    case tls
    /// The peer ended the connection before the response was complete.
    case disconnected
    /// The response was not complete within the time allowed.
    case timeout
    /// What came back is no HTTP response.
    case malformed
    /// The status is neither 2xx nor 3xx.
    case status
    /// No proof could be made, or no challenge was given.
    case proof
    /// A connection held idle was closed by the peer.
    case closedWhileIdle = "closed_while_idle"
}

/// One failure with the reason that the first of its kind is shown with.
struct Failure {
    let kind: FailureKind
    let reason: String
}
