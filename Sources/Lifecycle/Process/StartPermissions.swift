/// What an operator has allowed for one start of the gateway.
public struct StartPermissions: Sendable {
    /// Whether another process may be serving still, to be stopped once this one does.
    public var mayOverlap: Bool
    /// Whether a lost revocation journal may be made again, and its contents be forgotten.
    public var acceptsLostRevocations: Bool
    /// Whether a lost registry may be made again, without devices.
    public var acceptsLostRegistry: Bool
    /// Whether a lost secret may be made again, though devices have names by the old one.
    public var acceptsNewSecret: Bool

    public init(
        mayOverlap: Bool = false, acceptsLostRevocations: Bool = false, acceptsLostRegistry: Bool = false,
        acceptsNewSecret: Bool = false
    ) {
        self.mayOverlap = mayOverlap
        self.acceptsLostRevocations = acceptsLostRevocations
        self.acceptsLostRegistry = acceptsLostRegistry
        self.acceptsNewSecret = acceptsNewSecret
    }
}
