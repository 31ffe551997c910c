public import HTTP

/// A request to a service, but for its target and its fields.
public struct OutgoingRequest {
    public let method: Method
    /// Of the content as it is going to be written.
    public let framing: ContentFraming
    /// It asks for a WebSocket.
    public let isUpgrade: Bool

    public init(_ method: Method, framing: ContentFraming, isUpgrade: Bool = false) {
        self.method = method
        self.framing = framing
        self.isUpgrade = isUpgrade
    }
}
