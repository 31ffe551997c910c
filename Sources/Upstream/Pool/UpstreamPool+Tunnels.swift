/// Connections that become tunnels do not come back for as long as somebody likes, so they may have no more than a share of them:
/// the rest is for requests.
extension UpstreamPool {
    /// - Returns: whether one more tunnel may be on its way. If so, `giveTunnelPlace` follows, once.
    public func takeTunnelPlace() -> Bool {
        guard heldTunnels < settings.tunnels else { return false }
        heldTunnels += 1
        return true
    }

    public func giveTunnelPlace() { heldTunnels -= 1 }
}
