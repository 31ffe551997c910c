internal import EventLoop

/// What is read off at both ends of a measurement.
struct LoadMeter {
    let start: Instant
    private(set) var duration = TimeSpan(nanoseconds: 0)
    /// CPU seconds of this process.
    private(set) var ownCPU = 0.0
    /// Of each of the server's processes; nil if there is none to look at, or one has ended.
    private(set) var serverCPU: [Double]?
    var backlog: Backlog?

    private let server: [Int32]
    private let ownAtStart: Double
    private let serverAtStart: [Double?]
    private var isStopped = false

    init(_ server: [Int32], _ now: Instant) {
        start = now
        self.server = server
        serverAtStart = server.map { ProcessTime.of($0) }
        ownAtStart = ProcessTime.own()
    }

    /// Only the first call counts.
    mutating func stop(_ now: Instant) {
        guard !isStopped else { return }
        isStopped = true
        duration = now - start
        ownCPU = ProcessTime.own() - ownAtStart
        let spent = zip(server, serverAtStart).compactMap { process, start in
            start.flatMap { start in ProcessTime.of(process).map { $0 - start } }
        }
        if !server.isEmpty, spent.count == server.count { serverCPU = spent }
    }
}
