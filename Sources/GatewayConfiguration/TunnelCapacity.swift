/// Routes that let WebSockets through need room for them.
enum TunnelCapacity {
    /// - Parameter root: as written, for the places.
    static func check(
        _ routes: [RouteConfiguration], _ upstreams: [String: UpstreamConfiguration], _ limits: LimitsConfiguration,
        in root: Item, _ reading: Reading
    ) {
        let allowing = routes.filter { $0.websocket == .allowed }
        guard let first = allowing.first else { return }
        if limits.tunnels == 0, let item = root["limits"] {
            reading.warn(
                item.place(of: "tunnels"),
                "`tunnels` is 0, and the route `\(first.name)` says `websocket: allowed`: every WebSocket is refused",
                expected: "at least 1, or no route with `websocket: allowed`")
        }
        var checked: Set<String> = []
        for route in allowing where upstreams[route.upstream]?.speaks == .http2 {
            guard checked.insert(route.upstream).inserted, let item = root["upstreams"]?[route.upstream] else {
                continue
            }
            reading.refuse(
                item.place(of: "protocol"),
                "the route `\(route.name)` allows WebSockets, which are forwarded only by HTTP/1.1",
                expected: "`protocol: http/1.1`, or `websocket: ignored`")
        }
        for route in allowing {
            guard let upstream = upstreams[route.upstream], upstream.tunnels == 0,
                checked.insert(route.upstream).inserted,
                let item = root["upstreams"]?[route.upstream]
            else { continue }
            // Whichever of them it is that leaves one place.
            let key =
                upstream.requests == 1
                ? "requests" : upstream.connections == 1 ? "connections" : "connections_per_server"
            reading.refuse(
                item.place(of: key),
                "`\(key)` (1) leaves no connection for the WebSockets of the route `\(route.name)`, which may use half of them",
                expected: "at least 2, or `websocket: ignored`")
        }
    }
}
