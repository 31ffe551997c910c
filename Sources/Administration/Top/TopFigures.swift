/// The figures of one interval between two scrapes, per second, with the state at its end.
///
/// It is a value without I/O. A restart of the gateway resets its counters. Their new values are then the whole change.
public struct TopFigures: Equatable, Sendable {
    public struct Phase: Equatable, Sendable {
        public let name: String
        public let perSecond: Double
        /// Quantiles in seconds. Nil without measurements.
        public let half, most, nearlyAll: Double?
    }

    public struct Denial: Equatable, Sendable {
        public let code: String
        public let perSecond: Double
        /// The count since the gateway began.
        public let total: Double
    }

    public struct Server: Equatable, Sendable {
        public let upstream: String
        public let name: String
        /// The state in most workers.
        public let state: String
        public let busy, idle: Double
        public let perSecond, failuresPerSecond: Double
    }

    /// Requests by decision: forwarded, partial, denied, answered, abandoned.
    public let requests: [String: Double]
    /// Requests by route.
    public let routes: [String: Double]
    public let handshakes: [String: Double]
    /// Key exchanges by group.
    public let keyExchanges: [String: Double]
    public let connections, streams, tunnels: Double
    public let phases: [Phase]
    /// The denials that occurred, the most frequent first.
    public let denials: [Denial]
    public let servers: [Server]
    /// Waiting requests by upstream.
    public let waiting: [String: Double]
    /// Whether the registry is available. Nil without a registry.
    public let isRegistryAvailable: Bool?
    public let committed, batch, registryWaiting, registryErrors: Double
    /// The number of issued certificates. Nil without enrolment.
    public let certificatesIssued: Double?
    /// The used fraction of one processor.
    public let processor: Double
    public let memory: Double
    /// The number of lost log blocks and spans.
    public let lost: Double

    public var requestsPerSecond: Double { requests.values.reduce(0, +) }

    /// Computes the figures.
    ///
    /// - Parameter seconds: The length of the interval, more than 0.
    public init(from earlier: ScrapedMetrics, to later: ScrapedMetrics, seconds: Double) {
        let change = Change(earlier: earlier, later: later, seconds: seconds)
        requests = change.rates("attestgate_requests_total", by: "decision")
        routes = change.rates("attestgate_requests_total", by: "route")
        handshakes = change.rates("attestgate_handshakes_total", by: "result")
        keyExchanges = change.rates("attestgate_key_exchanges_total", by: "group")
        connections = later.sum("attestgate_connections") ?? 0
        streams = later.sum("attestgate_http2_streams") ?? 0
        tunnels = later.sum("attestgate_tunnels") ?? 0
        phases = ["total", "handshake", "verification", "commit", "upstream"].map { change.phase($0) }
        denials = change.rates("attestgate_denials_total", by: "code").compactMap { code, rate in
            let total = later.sum("attestgate_denials_total", ["code": code]) ?? 0
            return total > 0 ? Denial(code: code, perSecond: rate, total: total) : nil
        }.sorted { ($0.perSecond, $0.total, $1.code) > ($1.perSecond, $1.total, $0.code) }
        servers = change.servers
        waiting = later.sums("attestgate_upstream_waiting", by: "upstream")
        isRegistryAvailable = later.sum("attestgate_registry_available").map { $0 == 1 }
        committed = change.rate("attestgate_registry_counters_committed_total")
        let commits = change.rate("attestgate_registry_commits_total")
        batch = commits > 0 ? committed / commits : 0
        registryWaiting = later.sum("attestgate_registry_waiting") ?? 0
        registryErrors = later.sum("attestgate_registry_errors_total") ?? 0
        certificatesIssued = later.sum("attestgate_enrolment_certificates_issued_total").map { _ in
            change.rate("attestgate_enrolment_certificates_issued_total")
        }
        processor = change.rate("process_cpu_seconds_total")
        memory = later.sum("process_resident_memory_bytes") ?? 0
        let spans = ["queue_full", "expired", "refused", "rejected"].compactMap {
            later.sum("attestgate_spans_total", ["result": $0])
        }
        lost = ["attestgate_log_dropped_total", "attestgate_error_log_dropped_total"].reduce(spans.reduce(0, +)) {
            $0 + (later.sum($1) ?? 0)
        }
    }
}

/// The change between two scrapes.
private struct Change {
    let earlier, later: ScrapedMetrics
    let seconds: Double

    func rate(_ name: String, _ labels: [String: String] = [:]) -> Double {
        rate(earlier.sum(name, labels) ?? 0, later.sum(name, labels) ?? 0)
    }

    func rates(_ name: String, by label: String) -> [String: Double] {
        let before = earlier.sums(name, by: label)
        return later.sums(name, by: label).reduce(into: [:]) { $0[$1.key] = rate(before[$1.key] ?? 0, $1.value) }
    }

    private func rate(_ before: Double, _ after: Double) -> Double { Self.grown(before, after) / seconds }

    /// Returns the increase of a counter. If it is smaller than before, it was reset.
    private static func grown(_ before: Double, _ after: Double) -> Double { after < before ? after : after - before }

    var servers: [TopFigures.Server] {
        let names = Set(
            later.all("attestgate_upstream_server_workers").compactMap { sample in
                sample.labels["upstream"].flatMap { upstream in sample.labels["server"].map { [upstream, $0] } }
            })
        return names.sorted { ($0[0], $0[1]) < ($1[0], $1[1]) }.map { name in
            let labels = ["upstream": name[0], "server": name[1]]
            let states = later.sums("attestgate_upstream_server_workers", by: "state", labels).filter { $0.value > 0 }
            let state = states.max { ($0.value, $1.key) < ($1.value, $0.key) }?.key ?? ""
            let connections = later.sums("attestgate_upstream_connections", by: "state", labels)
            return TopFigures.Server(
                upstream: name[0], name: name[1], state: state, busy: connections["busy"] ?? 0,
                idle: connections["idle"] ?? 0,
                perSecond: rate("attestgate_upstream_server_requests_total", labels),
                failuresPerSecond: rate("attestgate_upstream_server_failures_total", labels))
        }
    }

    // MARK: - Histograms

    func phase(_ name: String) -> TopFigures.Phase {
        let series = "attestgate_request_duration_seconds"
        let before = earlier.sums("\(series)_bucket", by: "le", ["phase": name])
        let after = later.sums("\(series)_bucket", by: "le", ["phase": name])
        let isNew = after.contains { $0.value < before[$0.key] ?? 0 }
        let buckets = after.compactMap { bound, count in
            Self.bound(bound).map { (bound: $0, count: isNew ? count : count - (before[bound] ?? 0)) }
        }.sorted { $0.bound < $1.bound }
        return TopFigures.Phase(
            name: name, perSecond: (buckets.last?.count ?? 0) / seconds, half: Self.quantile(0.5, of: buckets),
            most: Self.quantile(0.9, of: buckets), nearlyAll: Self.quantile(0.99, of: buckets))
    }

    private static func bound(_ text: String) -> Double? { text == "+Inf" ? .infinity : Double(text) }

    /// Returns a quantile like Prometheus' histogram_quantile: linear within a bucket, and the lower bound of the last
    /// one.
    private static func quantile(_ share: Double, of buckets: [(bound: Double, count: Double)]) -> Double? {
        guard let total = buckets.last?.count, total > 0 else { return nil }
        let rank = share * total
        var below: (bound: Double, count: Double) = (0, 0)
        for bucket in buckets {
            if bucket.count >= rank {
                guard bucket.bound.isFinite, bucket.count > below.count else { return below.bound }
                return below.bound + (bucket.bound - below.bound) * (rank - below.count) / (bucket.count - below.count)
            }
            below = bucket
        }
        return below.bound
    }
}

/// The samples of `GET /metrics` at one time, by name and labels, in Prometheus' text format.
public struct ScrapedMetrics: Sendable {
    struct Sample: Sendable {
        let labels: [String: String]
        let value: Double
    }

    private var samples: [String: [Sample]] = [:]

    /// Parses a text. Lines that are not samples are ignored.
    public init(_ text: String) {
        for line in text.utf8.split(separator: UInt8(ascii: "\n")) where line.first != UInt8(ascii: "#") {
            guard let (name, sample) = Self.sample(Substring(line)) else { continue }
            samples[name, default: []].append(sample)
        }
    }

    func all(_ name: String) -> [Sample] { samples[name] ?? [] }

    /// Returns the sum of the samples with these labels, or nil if there is none.
    func sum(_ name: String, _ labels: [String: String] = [:]) -> Double? {
        let found = all(name).filter { sample in labels.allSatisfy { sample.labels[$0] == $1 } }
        return found.isEmpty ? nil : found.reduce(0) { $0 + $1.value }
    }

    /// Returns for each value of a label the sum of the samples that have it and the other labels.
    func sums(_ name: String, by label: String, _ labels: [String: String] = [:]) -> [String: Double] {
        var sums: [String: Double] = [:]
        for sample in all(name) where labels.allSatisfy({ sample.labels[$0] == $1 }) {
            if let key = sample.labels[label] { sums[key, default: 0] += sample.value }
        }
        return sums
    }

    // MARK: - One line

    private static func sample(_ line: Substring) -> (name: String, sample: Sample)? {
        guard let end = line.lastIndex(of: " "), let value = Double(line[line.index(after: end)...]) else { return nil }
        let series = line[..<end]
        guard let brace = series.firstIndex(of: "{") else {
            return (String(series), Sample(labels: [:], value: value))
        }
        var labels: [String: String] = [:]
        var rest = series[series.index(after: brace)...]
        while let equals = rest.firstIndex(of: "=") {
            let name = String(rest[..<equals])
            rest = rest[rest.index(after: equals)...]
            guard rest.first == "\"" else { return nil }
            rest = rest.dropFirst()
            guard let text = quoted(&rest) else { return nil }
            labels[name] = text
            guard rest.first == "," else { break }
            rest = rest.dropFirst()
        }
        return (String(series[..<brace]), Sample(labels: labels, value: value))
    }

    /// Reads up to the closing quote and consumes it.
    private static func quoted(_ rest: inout Substring) -> String? {
        var text = ""
        var isEscaped = false
        while let character = rest.popFirst() {
            switch (isEscaped, character) {
            case (true, "n"):
                text.append("\n")
                isEscaped = false
            case (true, _):
                text.append(character)
                isEscaped = false
            case (false, "\\"): isEscaped = true
            case (false, "\""): return text
            case (false, _): text.append(character)
            }
        }
        return nil
    }
}
