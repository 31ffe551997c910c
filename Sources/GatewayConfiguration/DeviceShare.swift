/// What one device may have under way at an upstream is meant to leave room for the others.
enum DeviceShare {
    /// - Parameter root: as written, for the places.
    static func check(
        _ upstreams: [String: UpstreamConfiguration], _ limits: LimitsConfiguration, in root: Item, _ reading: Reading
    ) {
        let key = LimitsConfiguration.Keys.requestsPerDevice.setting.name
        let share = limits.requestsPerDevice
        if share >= limits.connections, limits.connections > 1, let item = root["limits"] {
            reading.warn(
                item.place(of: "connections"),
                "one device may have as many requests in flight (`\(key)`: \(share)) as a worker has client connections",
                expected: "`\(key)` of less than \(limits.connections)")
        }
        for entry in root["upstreams"]?.entries ?? [] {
            guard let upstream = upstreams[entry.key] else { continue }
            // A product of two numbers of the conf file, neither beyond 65535.
            let room = min(upstream.connections * upstream.streams, upstream.requests ?? .max)
            // Of one place nobody can have half.
            guard share >= room, room > 1 else { continue }
            // Where neither is written, both are defaults, which fit.
            let written = [(root["limits"], [key]), (entry.value, ["requests", "connections", "streams"])]
                .lazy.flatMap { section, keys in keys.compactMap { section?[$0]?.place } }.first
            reading.warn(
                written ?? entry.keyPlace,
                "one device may have all \(room) requests in flight that the upstream `\(entry.key)` allows:"
                    + " `limits.\(key)` is \(share)",
                expected: "`\(key)` of at most \(room / 2), half of them, so that other devices are served too")
        }
    }
}
