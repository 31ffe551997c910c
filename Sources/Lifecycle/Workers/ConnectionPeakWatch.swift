/// Notices when a crowd of connections has left. The allocator keeps their memory for later connections as long as the
/// process runs, unless the process makes it return the memory.
struct ConnectionPeakWatch {
    private var most = 0

    /// Fewer are no crowd: what they leave is soon used again.
    private static let crowd = 1_000

    /// - Parameter connections: open now. To be asked at intervals.
    /// - Returns: whether three in four have gone since there were most.
    mutating func hasLeft(connections: Int) -> Bool {
        most = max(most, connections)
        guard most >= Self.crowd, connections <= most / 4 else { return false }
        most = connections
        return true
    }
}
