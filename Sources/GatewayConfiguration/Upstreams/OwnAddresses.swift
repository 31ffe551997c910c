/// Where nothing may be forwarded to: listeners of our own, which would take requests of the gateway for those of an
/// operator or a phone, or send them round and round; and addresses that belong to no host. Names are checked when they
/// are resolved.
struct OwnAddresses {
    private let listeners: [(address: ServerAddress, purpose: String)]

    init(
        _ listeners: [ListenerConfiguration], _ enrolment: EnrolmentConfiguration?,
        _ administration: AdministrationConfiguration?
    ) {
        self.listeners =
            listeners.map { ($0.address, "a listener of the gateway itself") }
            + [enrolment].compactMap(\.self).map { ($0.address, "the listener of enrolment") }
            + (administration?.listeners ?? []).map { ($0.address, "a listener of the administration") }
    }

    /// - Parameter root: where the settings stand. It looks at the servers as they are written.
    func check(in root: Item, _ reading: Reading) {
        for upstream in root["upstreams"]?.entries ?? [] {
            for item in upstream.value["servers"]?.elements ?? [] {
                guard let text = item.text, let server = try? ServerAddress.parse(text) else { continue }
                if let objection = objection(to: server) {
                    reading.refuse(item.place, "\(server) \(objection)", expected: "the address of a service")
                }
            }
        }
    }

    private func objection(to server: ServerAddress) -> String? {
        // ::ffff:127.0.0.1 leads where 127.0.0.1 does.
        let literal = server.isLiteral ? IPLiteral(server.host)?.unmapped : nil
        if let literal {
            if literal.isUnspecified { return "is not the address of a machine" }
            if literal.isForMany { return "is a multicast address" }
        }
        let listener = listeners.first { listener, _ in
            guard listener.port == server.port else { return false }
            guard let own = IPLiteral(listener.host) else { return false }
            if own.octets == literal?.octets { return true }
            // `localhost` is both kinds of loopback.
            if let literal { return literal.isLoopback && own.isUnspecified && own.isIPv6 == literal.isIPv6 }
            return server.isLoopback && (own.isUnspecified || own.text == "127.0.0.1" || own.text == "::1")
        }
        return listener.map { "is \($0.purpose)" }
    }
}
