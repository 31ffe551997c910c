internal import HTTP
internal import Metrics

/// What clients speak, and how they break it.
extension WorkerFamilies {
    var protocols: [MetricFamily] {
        var requests = MetricFamily(
            .counter, "attestgate_protocol_requests_total", "Requests that have ended, by the version of HTTP.")
        for version in HTTPVersion.allCases {
            requests.add(sum { $0.requestsByVersion[Int(version.rawValue)] }, ["protocol": "\(version.name)"])
        }
        var connections = MetricFamily(
            .gauge, "attestgate_protocol_connections",
            "Open client connections whose handshake was completed, by what is spoken on them.")
        connections.add(sum { $0.openConnections.http11 }, ["protocol": "HTTP/1.1"])
        connections.add(sum { $0.openConnections.http2 }, ["protocol": "HTTP/2"])
        var streams = MetricFamily(
            .gauge, "attestgate_http2_streams",
            "Requests and WebSockets that are open on connections of HTTP/2, by worker.")
        for (number, snapshot) in workers { streams.add(snapshot.counts.openStreams, ["worker": String(number)]) }
        var faults = MetricFamily(
            .counter, "attestgate_http2_faults_total",
            "Connections of HTTP/2 that were ended because their client broke the protocol, or did something too often."
        )
        for kind in HTTP2FaultKind.allCases { faults.add(sum { $0.http2Faults[kind.rawValue] }, ["kind": kind.name]) }
        return [requests, connections, streams, faults]
    }

    private func sum<Count: FixedWidthInteger>(_ count: (WorkerCounts) -> Count) -> Count {
        workers.reduce(0) { $0 + count($1.snapshot.counts) }
    }
}
