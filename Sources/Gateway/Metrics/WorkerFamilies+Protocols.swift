internal import HTTP
internal import Metrics

/// What clients speak, and how they break it.
extension WorkerFamilies {
    var protocols: [MetricFamily] {
        var requests = MetricFamily(
            .counter, "attestgate_protocol_requests_total", "Completed requests, by HTTP version.")
        for version in HTTPVersion.allCases {
            requests.add(sum { $0.requestsByVersion[Int(version.rawValue)] }, ["protocol": "\(version.name)"])
        }
        var connections = MetricFamily(
            .gauge, "attestgate_protocol_connections",
            "Open client connections with a completed handshake, by protocol.")
        connections.add(sum { $0.openConnections.http11 }, ["protocol": "HTTP/1.1"])
        connections.add(sum { $0.openConnections.http2 }, ["protocol": "HTTP/2"])
        var streams = MetricFamily(
            .gauge, "attestgate_http2_streams",
            "Requests and WebSockets open on HTTP/2 connections, by worker.")
        for (number, snapshot) in workers { streams.add(snapshot.counts.openStreams, ["worker": String(number)]) }
        var faults = MetricFamily(
            .counter, "attestgate_http2_faults_total",
            "HTTP/2 connections closed because the client violated the protocol or exceeded a rate."
        )
        for kind in HTTP2FaultKind.allCases { faults.add(sum { $0.http2Faults[kind.rawValue] }, ["kind": kind.name]) }
        return [requests, connections, streams, faults]
    }

    private func sum<Count: FixedWidthInteger>(_ count: (WorkerCounts) -> Count) -> Count {
        workers.reduce(0) { $0 + count($1.snapshot.counts) }
    }
}
