extension ListenerConfiguration {
    /// A host with rules of its own: what it shows, and whom it believes.
    public struct Host: Equatable, Sendable {
        /// At least one; in lower case. No name is that of two hosts of a listener.
        public let names: [String]
        public let tls: TLS
        public let clients: Clients
    }

    /// The client rules of the listener and of all its hosts.
    public var allClients: [Clients] { [clients] + hosts.map(\.clients) }
    /// What it shows.
    public var allTLS: [TLS] { [tls] + hosts.map(\.tls) }
}

extension ListenerConfiguration.Host {
    enum Keys {
        static let names = Key(
            "names",
            .distinct(
                .text(
                    "an exact host name in lower case, without a port", matching: HostName.pattern, HostName.parseName),
                minimum: 1),
            whenMissing: .refused, "The host's names.")
        static let tls = Key(
            "tls", .section(ListenerConfiguration.TLS.Keys.section, ListenerConfiguration.TLS.init),
            whenMissing: .refused,
            "The gateway's certificate for the host's clients.")
        static let clients = Key(
            "clients", .section(ListenerConfiguration.Clients.Keys.section, ListenerConfiguration.Clients.init),
            whenMissing: .refused,
            "The client certificates that the host accepts.")

        static let section = Section(
            path: "listeners.hosts", settings: [names.setting, tls.setting, clients.setting])
    }

    init?(_ item: Item, _ reading: Reading) {
        guard let reader = SectionReader(item, Keys.section, reading) else { return nil }
        let names = reader.read(Keys.names)
        let tls = reader.read(Keys.tls)
        let clients = reader.read(Keys.clients)
        guard let names, let tls, let clients else { return nil }
        self.names = names
        self.tls = tls
        self.clients = clients
    }
}

extension Kind where Value == [ListenerConfiguration.Host] {
    /// At least one; no name in two of them.
    static var listenerHosts: Kind {
        .list(of: .section(ListenerConfiguration.Host.Keys.section, ListenerConfiguration.Host.init), minimum: 1) {
            hosts, reading in
            var lines: [String: Int] = [:]
            for (_, item) in hosts {
                // If a name stands twice in one list, the list has reported it already.
                var own: [String: Int] = [:]
                for name in item["names"]?.elements ?? [] {
                    guard let text = name.text else { continue }
                    if let line = lines[text] {
                        reading.refuse(name.place, "the name `\(text)` is already used by the host on line \(line)")
                    } else {
                        own[text] = name.place.line
                    }
                }
                lines.merge(own) { first, _ in first }
            }
        }
    }
}

/// What holds between the hosts of listeners and the routes.
enum HostReferences {
    /// A host that no route is for has certificate and rules for nothing: mostly its name is misspelt somewhere. And a route is
    /// served on every listener: where one does not have its host, by the rules for everybody else.
    ///
    /// - Parameter root: where the settings stand.
    static func check(_ routes: [RouteConfiguration], in root: Item, _ reading: Reading) {
        let served = Set(routes.map(\.host))
        let listeners = (root["listeners"]?.elements ?? []).map { (item: $0, names: names(of: $0)) }
        for listener in listeners {
            for name in listener.names {
                guard let text = name.text else { continue }
                guard served.contains(text) else {
                    reading.warn(
                        name.place, "there is no route for the host \(Printable.quoted(text))",
                        expected: "a route with `host: \(text)`, or remove the name")
                    continue
                }
                for other in listeners where !other.names.contains(where: { $0.text == text }) {
                    reading.warn(
                        name.place,
                        "the listener \(reading.line(of: other.item.place, from: name.place)) also serves \(Printable.quoted(text)), "
                            + "with its own rules",
                        expected: "\(Printable.quoted(text)) among the `hosts` there, if the same rules apply")
                }
            }
        }
    }

    private static func names(of listener: Item) -> [Item] {
        (listener["hosts"]?.elements ?? []).flatMap { $0["names"]?.elements ?? [] }
    }
}
