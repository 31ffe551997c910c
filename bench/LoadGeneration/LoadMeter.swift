internal import EventLoop

/// What is read off at both ends of a measurement.
struct LoadMeter {
    let start: Instant
    private(set) var duration = TimeSpan(nanoseconds: 0)
    /// CPU seconds of this process and of the server.
    private(set) var ownCPU = 0.0
    private(set) var serverCPU: Double?
    var backlog: Backlog?

    private let server: Int32?
    private let ownAtStart: Double
    private let serverAtStart: Double?
    private var isStopped = false

    init(_ server: Int32?, _ now: Instant) {
        start = now
        self.server = server
        serverAtStart = server.flatMap { ProcessTime.of($0) }
        ownAtStart = ProcessTime.own()
    }

    /// Only the first call counts.
    mutating func stop(_ now: Instant) {
        guard !isStopped else { return }
        isStopped = true
        duration = now - start
        ownCPU = ProcessTime.own() - ownAtStart
        if let server, let serverAtStart, let end = ProcessTime.of(server) { serverCPU = end - serverAtStart }
    }
}
