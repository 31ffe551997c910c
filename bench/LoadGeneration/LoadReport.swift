internal import EventLoop

/// The result of a run. Encodes to the object that `--json` prints.
public struct LoadReport: Encodable, Sendable {
    /// In microseconds.
    public struct Latency: Encodable, Sendable {
        public let p50: Double
        public let p90: Double
        public let p99: Double
        public let p999: Double
        public let max: Double

        enum CodingKeys: String, CodingKey {
            case p50, p90, p99
            case p999 = "p99.9"
            case max
        }
    }

    /// A constant-rate run only.
    public struct OpenLoop: Encodable, Sendable {
        /// Requests per second asked for.
        public let rate: Double
        /// Most requests waiting for their turn at any moment.
        public let backlogMax: Int
        /// Due, but not sent before the measurement ended. Above 0 the latencies are lower bounds.
        public let unsent: Int

        enum CodingKeys: String, CodingKey {
            case rate
            case backlogMax = "backlog_max"
            case unsent
        }
    }

    /// An attested run only: requests begun, by where their proofs came from.
    public struct Proofs: Encodable, Sendable {
        /// Made before the measurement.
        public let ahead: Int
        /// Made with the request, at the expense of the load generator.
        public let live: Int
        /// Sent without one, for want of a challenge.
        public let missing: Int
    }

    public let mode: LoadMode
    /// What was spoken: `http/1.1` or `h2`.
    public let version: String
    public let connections: Int
    /// Requests under way at the same time on each of them.
    public let parallel: Int
    /// Seconds measured.
    public let duration: Double
    /// Responses that came completely, whatever their status.
    public let requests: Int
    public let requestsPerSecond: Double
    public let handshakes: Int
    /// Handshakes that resumed a session.
    public let resumed: Int
    /// Failures by kind, those before the measurement included.
    public let errors: [String: Int]
    /// The first failure of each kind in words.
    public let reasons: [String: String]
    /// Responses by status code.
    public let statuses: [String: Int]
    public let latency: Latency
    public let openLoop: OpenLoop?
    public let proofs: Proofs?
    /// Of responses, without TLS.
    public let bytes: Int
    /// CPU seconds of the load generator during the measurement.
    public let ownCPU: Double
    /// CPU seconds of the processes named by `--server-pid` during the measurement: of all, and of each in their order.
    public let serverCPU: Double?
    public let serverCPUOfEach: [Double]?

    enum CodingKeys: String, CodingKey {
        case mode
        case version = "protocol"
        case connections, parallel
        case duration = "duration_seconds"
        case requests
        case requestsPerSecond = "requests_per_second"
        case handshakes, resumed, errors, reasons, statuses
        case latency = "latency_microseconds"
        case openLoop = "open_loop"
        case proofs, bytes
        case ownCPU = "own_cpu_seconds"
        case serverCPU = "server_cpu_seconds"
        case serverCPUOfEach = "server_cpu_seconds_of_each"
    }

    public var failed: Int { errors.values.reduce(0, +) }

    /// Whether sessions were resumed as the mode demands: at least 99 of 100 handshakes.
    public var resumedEnough: Bool { mode != .resumed || resumed * 100 >= handshakes * 99 }

    init(_ plan: LoadPlan, _ tally: Tally, _ meter: LoadMeter?) {
        mode = plan.mode
        version = plan.version.name
        connections = plan.connections
        parallel = plan.parallel
        duration = Double(meter?.duration.nanoseconds ?? 0) / 1e9
        requests = tally.requests
        requestsPerSecond = duration > 0 ? Double(tally.requests) / duration : 0
        handshakes = tally.handshakes
        resumed = tally.resumed
        errors = Dictionary(uniqueKeysWithValues: tally.failures.map { ($0.key.rawValue, $0.value) })
        reasons = Dictionary(uniqueKeysWithValues: tally.reasons.map { ($0.key.rawValue, $0.value) })
        statuses = Dictionary(uniqueKeysWithValues: tally.statusCounts.map { (String($0.status), $0.count) })
        latency = Latency(
            p50: tally.latency(atPercentile: 50), p90: tally.latency(atPercentile: 90),
            p99: tally.latency(atPercentile: 99), p999: tally.latency(atPercentile: 99.9),
            max: tally.latency(atPercentile: 100))
        openLoop = plan.rate.map {
            OpenLoop(rate: $0, backlogMax: meter?.backlog?.largest ?? 0, unsent: meter?.backlog?.unsent ?? 0)
        }
        proofs =
            plan.mode == .attested
            ? Proofs(ahead: tally.proofs(.ahead), live: tally.proofs(.live), missing: tally.proofs(.missing)) : nil
        bytes = tally.bytes
        ownCPU = meter?.ownCPU ?? 0
        serverCPUOfEach = meter?.serverCPU
        serverCPU = serverCPUOfEach?.reduce(0, +)
    }
}

extension LoadMode: Encodable {}
