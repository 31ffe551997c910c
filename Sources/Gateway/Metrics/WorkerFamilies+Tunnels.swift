internal import Metrics

/// What the workers have counted of tunnels.
extension WorkerFamilies {
    var tunnels: [MetricFamily] {
        var open = MetricFamily(.gauge, "attestgate_tunnels", "Open WebSockets, by worker.")
        var opened: UInt64 = 0
        var ended = MetricFamily(
            .counter, "attestgate_tunnels_ended_total",
            "Closed WebSockets, by reason.")
        var bytes = MetricFamily(
            .counter, "attestgate_tunnel_bytes_total", "Bytes sent through WebSockets, by direction."
        )
        for (number, snapshot) in workers {
            open.add(snapshot.counts.tunnels.open, ["worker": String(number)])
            opened += snapshot.counts.tunnels.opened
        }
        for end in TunnelEnd.allCases {
            let count = workers.reduce(0) { $0 + $1.snapshot.counts.tunnelEnds[end.rawValue] }
            ended.add(count, ["by": String(describing: end.name)])
        }
        bytes.add(workers.reduce(0) { $0 + $1.snapshot.counts.tunnelBytes.toService }, ["to": "service"])
        bytes.add(workers.reduce(0) { $0 + $1.snapshot.counts.tunnelBytes.toClient }, ["to": "client"])
        let all = MetricFamily(
            .counter, "attestgate_tunnels_opened_total", "Opened WebSockets.", opened)
        return [open, all, ended, bytes]
    }
}
