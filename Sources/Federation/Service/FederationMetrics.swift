internal import Registry
internal import Telemetry

/// The counts of a service since its start.
public struct FederationMetrics: Sendable {
    /// By endpoint, with a last row for unknown ones, and by result: success, then each error.
    private var requests: [[UInt64]]
    private var durations: [LatencyHistogram]
    private var tokens = [UInt64](repeating: 0, count: FederationToken.Kind.allCases.count)
    var tokensRevoked: UInt64 = 0
    var requestsLimited: UInt64 = 0
    var connectionsLimited: UInt64 = 0
    var handshakesFailed: UInt64 = 0
    /// The approved services, and how many of them have a current description.
    public internal(set) var services = 0
    public internal(set) var described = 0

    private static let endpoints = FederationEndpoint.allCases.map(\.name) + ["other"]
    private static let results = ["ok"] + FederationError.allCases.map(\.rawValue)

    init() {
        let row = [UInt64](repeating: 0, count: Self.results.count)
        requests = [[UInt64]](repeating: row, count: Self.endpoints.count)
        durations = [LatencyHistogram](repeating: LatencyHistogram(), count: Self.endpoints.count)
    }

    mutating func answered(_ endpoint: FederationEndpoint?, _ error: FederationError?, nanoseconds: Int64) {
        let row = endpoint?.rawValue ?? FederationEndpoint.allCases.count
        requests[row][error.flatMap { Self.results.firstIndex(of: $0.rawValue) } ?? 0] += 1
        durations[row].record(nanoseconds: nanoseconds)
    }

    mutating func issued(_ kind: FederationToken.Kind) {
        if let place = FederationToken.Kind.allCases.firstIndex(of: kind) { tokens[place] += 1 }
    }

    /// The metrics for a scrape.
    var families: [MetricFamily] {
        var answers = MetricFamily(
            .counter, "attestgate_federation_requests_total", "Requests to the federation's endpoints, by result.")
        var times = MetricFamily(
            .histogram, "attestgate_federation_request_duration_seconds",
            "Time from the end of the request head to the response, including the registry.")
        for (row, endpoint) in Self.endpoints.enumerated() {
            for (place, result) in Self.results.enumerated() {
                answers.add(requests[row][place], ["endpoint": endpoint, "result": result])
            }
            times.add(durations[row], ["endpoint": endpoint])
        }
        var issued = MetricFamily(.counter, "attestgate_federation_tokens_issued_total", "Issued tokens, by kind.")
        for (place, kind) in FederationToken.Kind.allCases.enumerated() {
            issued.add(tokens[place], ["kind": kind.rawValue])
        }
        var limited = MetricFamily(
            .counter, "attestgate_federation_limited_total",
            "Requests refused with 503 and connections closed, because of a limit.")
        limited.add(requestsLimited, ["limit": "requests"])
        limited.add(connectionsLimited, ["limit": "connections"])
        return [
            answers, times, issued, limited,
            MetricFamily(
                .counter, "attestgate_federation_revocations_total", "Revocations of tokens by their holders.",
                tokensRevoked),
            MetricFamily(
                .counter, "attestgate_federation_handshakes_failed_total",
                "Connections to the federation's listener that closed before the end of the TLS handshake.",
                handshakesFailed),
            MetricFamily(.gauge, "attestgate_federation_services", "Approved services.", services),
            MetricFamily(
                .gauge, "attestgate_federation_services_described",
                "Approved services whose RSD2 document was fetched and accepted.", described),
        ]
    }
}
