/// The administration interface of the running gateway.
public struct AdministrationConfiguration: Equatable, Sendable {
    /// The path of the Unix socket, at most 107 bytes. Its directory exists.
    public let socketPath: String
    /// The TCP addresses that serve the interface too, each listed once.
    public let listeners: [AdministrationListenerConfiguration]
}

extension AdministrationConfiguration {
    enum Keys {
        static let socket = Key(
            "socket", .socketToMake, whenMissing: .refused,
            "The Unix socket for operators' commands; created at start.")
        static let listeners = Key(
            "listeners", .administrationListeners, whenMissing: .means("[]"),
            "TCP addresses that serve the same to clients with a token or a certificate.")

        static let section = Section(path: "administration", settings: [socket.setting, listeners.setting])
    }

    init?(_ item: Item, _ reading: Reading) {
        guard let reader = SectionReader(item, Keys.section, reading) else { return nil }
        let socketPath = reader.read(Keys.socket)
        let listeners = reader.read(Keys.listeners)
        guard let socketPath, let listeners else { return nil }
        self.socketPath = socketPath
        self.listeners = listeners
    }
}

extension Kind where Value == String {
    fileprivate static var socketToMake: Kind {
        // `sun_path` of unix(7) has 108 bytes, the last of which is NUL.
        let longest = 107
        let file = fileToMake("the path of a Unix socket, at most \(longest) bytes, in a directory that exists")
        return Kind(expected: file.expected, shape: file.shape) { item, reading in
            guard let path = file.read(item, reading) else { return nil }
            guard path.utf8.count <= longest else {
                reading.refuse(
                    item.place, "the path \(Printable.quoted(path)) has \(path.utf8.count) bytes",
                    expected: file.expected)
                return nil
            }
            return path
        }
    }
}

/// A TCP address that serves the administration interface. A client must present a token, a certificate, or both.
public struct AdministrationListenerConfiguration: Equatable, Sendable {
    /// A literal address that differs from the gateway's own listeners.
    public let address: ServerAddress
    /// The file with the token that every request must carry. Without one, clients must have certificates.
    public let tokenPath: String?
    /// Accepted values of the Host field besides the address and `localhost` with its port.
    public let hosts: [ServerAddress]
    /// TLS of the listener. Only an address of this machine may go without.
    public let tls: TLS?
    /// The operations that authenticated clients may use.
    public let level: Level

    public enum Level: String, CaseIterable, Sendable {
        /// All operations.
        case admin
        /// Operations that read; none that change anything.
        case view
        /// Only metrics and health.
        case metrics
    }

    public struct TLS: Equatable, Sendable {
        /// The path of a PEM file, leaf first.
        public let certificatePath: String
        /// The path of a PEM file.
        public let keyPath: String
        public let policy: TLSPolicyName
        /// The paths of PEM files, at least one. Nil if clients need no certificate.
        public let authoritiesPaths: [String]?
    }
}

extension AdministrationListenerConfiguration {
    enum Keys {
        static let address = Key(
            "address",
            .text(
                "a literal address and a port, for example 127.0.0.1:9464", matching: ServerAddress.literalPattern,
                ServerAddress.parseLiteral),
            whenMissing: .refused, "The address and port to listen on; not one of the gateway's.")
        static let tokenFile = Key(
            "token_file", .secretFile("a readable file"), whenMissing: .allowed,
            "The file with the token that requests send as Authorization: Bearer TOKEN.")
        static let hosts = Key(
            "hosts",
            .distinct(
                .text("a name or address and a port", matching: ServerAddress.pattern, ServerAddress.parse), minimum: 0),
            whenMissing: .means("[]"),
            "Accepted values of the Host field besides the address and localhost with its port.")
        static let tls = Key(
            "tls", .section(TLS.Keys.section, TLS.init), whenMissing: .allowed,
            "The listener's certificate, and the client certificates it requires.")

        static let level = Key(
            "level", .choice as Kind<Level>, whenMissing: .means("admin"),
            "What clients of this listener may do.")

        static let section = Section(
            path: "administration.listeners",
            settings: [address.setting, level.setting, tokenFile.setting, hosts.setting, tls.setting])
    }

    init?(_ item: Item, _ reading: Reading) {
        guard let reader = SectionReader(item, Keys.section, reading) else { return nil }
        let address = reader.read(Keys.address)
        let level = reader.read(Keys.level)
        let tokenPath = reader.read(Keys.tokenFile)
        let hosts = reader.read(Keys.hosts)
        let tls = reader.read(Keys.tls)
        guard let address, let level, let hosts, tokenPath != nil || !reader.has(Keys.tokenFile),
            tls != nil || !reader.has(Keys.tls)
        else { return nil }
        guard tokenPath != nil || tls?.authoritiesPaths != nil else {
            reading.refuse(
                reader.place(of: Keys.address), "anyone who can reach \(address) could \(level.deed)",
                expected: "`token_file`, or `tls` with `clients`")
            return nil
        }
        guard tls != nil || address.isLoopback else {
            reading.refuse(
                reader.place(of: Keys.address), "the token would be sent to \(address) unencrypted",
                expected: "`tls`, or an address of this machine, such as 127.0.0.1:\(address.port)")
            return nil
        }
        self.address = address
        self.level = level
        self.tokenPath = tokenPath
        self.hosts = hosts
        self.tls = tls
    }
}

extension AdministrationListenerConfiguration.Level {
    /// The operations of the level, for a message.
    fileprivate var deed: String {
        switch self {
        case .admin: "administer the gateway"
        case .view: "list its devices"
        case .metrics: "read its metrics"
        }
    }
}

extension AdministrationListenerConfiguration.TLS {
    enum Keys {
        static let certificate = Key(
            "certificate", .file("a readable PEM file"), whenMissing: .refused,
            "The listener's certificate and its intermediates, leaf first.")
        static let key = Key(
            "key", .keyFile("a readable PEM file"), whenMissing: .refused, "The private key of the certificate.")
        static let policy = TLSPolicyName.key
        static let clients = Key(
            "clients",
            .section(
                ListenerConfiguration.Clients.AdministrationKeys.section,
                ListenerConfiguration.Clients.init(administering:_:)), whenMissing: .allowed,
            "The client certificates that operators must present; never those of phones.")

        static let section = Section(
            path: "administration.listeners.tls",
            settings: [certificate.setting, key.setting, policy.setting, clients.setting], former: TLSPolicyName.former)
    }

    init?(_ item: Item, _ reading: Reading) {
        guard let reader = SectionReader(item, Keys.section, reading) else { return nil }
        let certificatePath = reader.read(Keys.certificate)
        let keyPath = reader.read(Keys.key)
        let policy = reader.read(Keys.policy)
        let clients = reader.read(Keys.clients)
        guard let certificatePath, let keyPath, let policy, clients != nil || !reader.has(Keys.clients) else {
            return nil
        }
        self.certificatePath = certificatePath
        self.keyPath = keyPath
        self.policy = policy
        authoritiesPaths = clients?.authoritiesPaths
    }
}

extension ListenerConfiguration.Clients {
    fileprivate enum AdministrationKeys {
        static let section = Section(
            path: "administration.listeners.tls.clients", settings: [authorities.setting])
        static let authorities = Key(
            "authorities", Keys.authorities.kind, whenMissing: .refused,
            "The authorities of operators' certificates.")
    }

    fileprivate init?(administering item: Item, _ reading: Reading) {
        guard let reader = SectionReader(item, AdministrationKeys.section, reading),
            let authoritiesPaths = reader.read(AdministrationKeys.authorities)
        else { return nil }
        self.authoritiesPaths = authoritiesPaths
        acceptsRegistered = false
        revocationListsPaths = []
        revocationPolicy = .noLists
        pins = nil
    }
}

extension Kind where Value == [AdministrationListenerConfiguration] {
    /// A list of listeners in which no address occurs twice.
    fileprivate static var administrationListeners: Kind {
        .list(
            of: .section(AdministrationListenerConfiguration.Keys.section, AdministrationListenerConfiguration.init),
            minimum: 0
        ) { listeners, reading in
            var seen: [ServerAddress] = []
            for (listener, item) in listeners {
                let place = item.place(of: "address")
                reading.mention(.address(listener.address.description), at: place)
                if seen.contains(listener.address) {
                    reading.refuse(place, "\(listener.address) is listed twice")
                } else if let other = seen.first(where: listener.address.overlaps) {
                    reading.refuse(
                        place, "\(listener.address) uses the port of \(other)", expected: "another address or port")
                }
                seen.append(listener.address)
            }
        }
    }
}

/// Separation of the administration interface from the gateway's clients: neither their listeners nor their
/// certificates give access to it.
enum AdministrationSeparation {
    /// Refuses listeners whose address or authorities clients of the gateway use.
    ///
    /// - Parameter root: the settings as written, for the places of diagnostics.
    static func check(
        _ administration: AdministrationConfiguration, _ listeners: [ListenerConfiguration],
        _ enrolment: EnrolmentConfiguration?, in root: Item, _ reading: Reading
    ) {
        let place = root["administration"]?.place(of: "listeners") ?? root.place
        let authorities = Set(
            listeners.flatMap(\.allClients).flatMap(\.authoritiesPaths)
                + [enrolment?.authority.certificatePath].compactMap(\.self))
        for listener in administration.listeners {
            let objections = listeners.lazy.compactMap {
                listener.address.objection(to: $0.address, "a listener of the gateway's clients")
            }
            if let objection = objections.first { reading.refuse(place, objection, expected: "another address") }
            for path in listener.tls?.authoritiesPaths ?? [] where authorities.contains(path) {
                reading.refuse(
                    place, "every client of the gateway can have a certificate of \(Printable.quoted(path))",
                    expected: "an authority that issues only operators' certificates")
            }
        }
    }
}
