internal import EventLoop

/// What is read off at both ends of a measurement.
struct LoadMeter {
    let start: Instant
    private(set) var duration = TimeSpan(nanoseconds: 0)
    /// CPU seconds of this process, and of those of the server together.
    private(set) var ownCPU = 0.0
    private(set) var serverCPU: Double?
    var backlog: Backlog?

    private let servers: [Int32]
    private let ownAtStart: Double
    private let serverAtStart: Double?
    private var isStopped = false

    init(_ servers: [Int32], _ now: Instant) {
        start = now
        self.servers = servers
        serverAtStart = ProcessTime.of(servers)
        ownAtStart = ProcessTime.own()
    }

    /// Only the first call counts.
    mutating func stop(_ now: Instant) {
        guard !isStopped else { return }
        isStopped = true
        duration = now - start
        ownCPU = ProcessTime.own() - ownAtStart
        if let serverAtStart, let end = ProcessTime.of(servers) { serverCPU = end - serverAtStart }
    }
}
