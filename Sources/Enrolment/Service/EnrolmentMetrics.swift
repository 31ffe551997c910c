public import Telemetry

/// The counts of a service since its start.
public struct EnrolmentMetrics: Sendable {
    /// The counts by endpoint, with a last row for unknown ones, and by result: success, then each error.
    private var requests: [[UInt64]]
    private var durations: [LatencyHistogram]
    var attestationsVerified: UInt64 = 0
    var attestationsRefused: UInt64 = 0
    var certificatesIssued: UInt64 = 0
    /// The certificates that expire within `ExpiryFigures.days`. Nil until the registry has answered.
    var certificatesExpiring: [Int]?
    var requestsLimited: UInt64 = 0
    var connectionsLimited: UInt64 = 0
    var connectionsBroken: UInt64 = 0
    var proxyHeadersRefused: UInt64 = 0
    var handshakesFailed: UInt64 = 0
    /// The counts of receipts. Nil if receipts are not refreshed.
    var receipts: ReceiptMetrics?
    /// The counts of the status list. Nil if nothing demands it.
    var statusList: FetchMetrics?
    /// The number of enrolled devices whose keys rest on a listed certificate, at the last review.
    var revokedDevices = 0
    /// The counts of the keys of admission tokens. Nil if none are fetched.
    var issuerKeys: FetchMetrics?

    init() {
        let row = [UInt64](repeating: 0, count: Self.results.count)
        requests = [[UInt64]](repeating: row, count: EnrolmentEndpoint.allCases.count + 1)
        durations = [LatencyHistogram](repeating: LatencyHistogram(), count: EnrolmentEndpoint.allCases.count + 1)
    }

    mutating func answered(_ endpoint: EnrolmentEndpoint?, _ error: EnrolmentError?, nanoseconds: Int64) {
        let row = endpoint?.rawValue ?? EnrolmentEndpoint.allCases.count
        let result = error.flatMap { Self.results.firstIndex(of: "\($0.row.code)") } ?? 0
        requests[row][result] += 1
        durations[row].record(nanoseconds: nanoseconds)
    }

    private static let endpoints = EnrolmentEndpoint.allCases.map(\.name) + ["other"]
    /// The codes of both tables, each once. The endpoints' own come first.
    private static let results: [String] = {
        let own = ["ok"] + EnrolmentError.own.map { "\($0.row.code)" }
        return own + EnrolmentError.denials.map { "\($0.row.code)" }.filter { !own.contains($0) }
    }()
    private static let ownResults = EnrolmentError.own.count + 1

    /// The metrics for a scrape.
    public var families: [MetricFamily] {
        var answers = MetricFamily(
            .counter, "attestgate_enrolment_requests_total", "Requests to the enrolment endpoints, by result.")
        var times = MetricFamily(
            .histogram, "attestgate_enrolment_request_duration_seconds",
            "Time from the end of the request head to the response, including the registry.")
        for (row, endpoint) in Self.endpoints.enumerated() {
            let isForDevices = EnrolmentEndpoint(rawValue: row)?.isServed(toDevices: true) ?? false
            for (place, result) in Self.results.enumerated() where place < Self.ownResults || isForDevices {
                answers.add(requests[row][place], ["endpoint": endpoint, "result": result])
            }
            times.add(durations[row], ["endpoint": endpoint])
        }
        var attestations = MetricFamily(
            .counter, "attestgate_enrolment_attestations_total", "Verified attestations, by verdict.")
        attestations.add(attestationsVerified, ["result": "verified"])
        attestations.add(attestationsRefused, ["result": "refused"])
        var limited = MetricFamily(
            .counter, "attestgate_enrolment_limited_total",
            "Requests refused with 503 and connections closed, because of a limit or an HTTP/2 violation.")
        limited.add(requestsLimited, ["limit": "requests"])
        limited.add(connectionsLimited, ["limit": "connections"])
        limited.add(connectionsBroken, ["limit": "protocol"])
        var expiring = MetricFamily(
            .gauge, "attestgate_enrolment_certificates_expiring",
            "Certificates of active devices that expire within this time and are not renewed.")
        for (days, count) in zip(ExpiryFigures.days, certificatesExpiring ?? []) {
            expiring.add(count, ["within": "\(days)d"])
        }
        return [
            answers, times, attestations, limited,
            MetricFamily(
                .counter, "attestgate_enrolment_certificates_issued_total", "Client certificates issued.",
                certificatesIssued),
            expiring,
            MetricFamily(
                .counter, "attestgate_enrolment_proxy_headers_refused_total",
                "Connections of trusted proxies to the enrolment listener without a valid PROXY header.",
                proxyHeadersRefused),
            MetricFamily(
                .counter, "attestgate_enrolment_handshakes_failed_total",
                "Connections to the enrolment listener that closed before the end of the TLS handshake.",
                handshakesFailed),
        ] + (receipts?.families ?? []) + fetchFamilies
    }

    private var fetchFamilies: [MetricFamily] {
        var families: [MetricFamily] = []
        if let statusList {
            families += statusList.families(
                "attestgate_status_list", of: "Android's status list", else: "no Android phone can enrol")
            families += [
                MetricFamily(
                    .gauge, "attestgate_status_list_entries", "Entries of the status list that is in use.",
                    statusList.entries),
                MetricFamily(
                    .gauge, "attestgate_status_list_revoked_devices",
                    "Enrolled devices that are refused because a certificate that attests their key is listed.",
                    revokedDevices),
            ]
        }
        if let issuerKeys {
            families += issuerKeys.families(
                "attestgate_issuer_keys", of: "the keys of admission tokens", else: "no token is accepted")
        }
        return families
    }
}
