internal import Vocabulary

/// The administration interface of the running gateway.
public struct AdministrationConfiguration: Equatable, ConfigurationSection {
    @Setting(
        key: "socket", required: Self.socket, "The Unix socket for operators' commands; created at start.")
    public var socketPath: String
    @Setting(
        AdministrationListenerConfiguration.list, default: "[]",
        "TCP addresses that serve the same to clients with a token or a certificate.")
    public var listeners: [AdministrationListenerConfiguration]

    static let section = Section("administration", of: Self.self)

    /// The socket and the addresses, which no reload changes.
    var places: [String] { [socketPath] + listeners.map(\.address.description).sorted() }

    private static var socket: Kind<String> {
        let file = Kind<String>.fileToMake(
            "the path of a Unix socket, at most \(ServerAddress.longestSocketPath) bytes, in a directory that exists")
        return Kind(expected: file.expected, shape: file.shape) { item, reading in
            guard let path = file.read(item, reading) else { return nil }
            if let objection = objection(toSocket: path) {
                reading.refuse(
                    item.place, "the path \(Printable.quoted(path)) \(objection)", expected: file.expected)
                return nil
            }
            return path
        }
    }

    /// Returns why no socket can have the path, in words that follow it. Nil if one can.
    static func objection(toSocket path: String) -> String? {
        path.utf8.count <= ServerAddress.longestSocketPath ? nil : "has \(path.utf8.count) bytes"
    }
}

/// What the conf file says of the administration interface.
enum AdministrationChoice: Equatable, Sendable {
    case off
    case on(AdministrationConfiguration)

    var configuration: AdministrationConfiguration? {
        if case .on(let configuration) = self { configuration } else { nil }
    }

    static var kind: Kind<Self> {
        let section = Kind<AdministrationConfiguration>.section
        let expected =
            "`off`, or \(section.expected) with: \(AdministrationConfiguration.section.names.joined(separator: ", "))"
        return Kind(expected: expected, shape: .either([.choice(["off"]), section.shape])) { item, reading in
            guard let text = item.text else { return section.read(item, reading).map { .on($0) } }
            if text == "off" { return .off }
            let means = ["no", "none", "false", "disabled"].contains(text.lowercased())
            reading.refuse(
                item.place, "found \(item.summary)", expected: expected,
                suggestion: means ? "off" : Spelling.nearest(to: text, among: ["off"]))
            return nil
        }
    }

    /// Returns the interface of a file without the section: a socket in the runtime directory, or nil without one.
    static func standard(_ reading: Reading, at place: Place) -> Self? {
        guard let socket = standardSocket(reading) else { return nil }
        if let objection = AdministrationConfiguration.objection(toSocket: socket)
            ?? reading.objection(toMaking: socket)
        {
            reading.warn(place, "there is no administration socket \(Printable.quoted(socket)): \(objection)")
            return nil
        }
        // A text in double quotes is the same in JSON and YAML.
        let quoted = socket.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"")
        let item = Document.standard("{socket: \"\(quoted)\"}", at: place, reading)
        return item.flatMap { AdministrationConfiguration.read($0, reading) }.map { .on($0) }
    }

    static func standardSocket(_ reading: Reading) -> String? {
        reading.runtimeDirectory.map { "\($0)/administration.socket" }
    }
}

/// A TCP address that serves the administration interface. A client must present a token, a certificate, or both.
public struct AdministrationListenerConfiguration: Equatable, ConfigurationSection {
    /// A literal address that differs from the gateway's own listeners.
    @Setting(
        required: .text(
            "a literal address and a port, for example 127.0.0.1:9464", matching: ServerAddress.literalPattern,
            ServerAddress.parseLiteral),
        "The address and port to listen on; not one of the gateway's.")
    public var address: ServerAddress
    @Setting(.choice, default: "admin", "What clients of this listener may do.")
    public var level: Level
    /// Without a token, clients must have certificates. None at the level `health`.
    @Setting(
        key: "token_file", .secretFile("a readable file"),
        "The file with the token that requests send as Authorization: Bearer TOKEN.")
    public var tokenPath: String?
    @Setting(
        .distinct(
            .text("a name or address and a port", matching: ServerAddress.pattern, ServerAddress.parse), minimum: 0),
        default: "[]", "Accepted values of the Host field besides the address and localhost with its port.")
    public var hosts: [ServerAddress]
    /// Only an address of this machine may go without.
    @Setting(.section, "The listener's certificate, and the client certificates it requires.")
    public var tls: TLS?

    static let section = Section("administration.listeners", of: Self.self)

    /// The place at which the section begins.
    public var place: Place { beginning }

    func check(_ item: Item, _ reading: Reading) -> Bool {
        guard isComplete else { return false }
        if level == .health { return checkHealth(item, reading) }
        guard tokenPath != nil || tls?.authoritiesPaths != nil else {
            reading.refuse(
                _address.place, "anyone who can reach \(address) could \(level.deed)",
                expected: "`token_file`, or `tls` with `clients`")
            return false
        }
        guard tls != nil || address.isLoopback else {
            reading.refuse(
                _address.place, "the token would be sent to \(address) unencrypted",
                expected: "`tls`, or an address of this machine, such as 127.0.0.1:\(address.port)")
            return false
        }
        return true
    }

    /// Refuses credentials where none are asked for: they would not protect anything.
    private func checkHealth(_ item: Item, _ reading: Reading) -> Bool {
        for key in ["token_file", "hosts", "tls"] {
            guard let setting = item[key] else { continue }
            reading.refuse(
                setting.place, "`\(key)` has no effect with `level: health`, which is open to everybody, in clear text",
                expected: "no `\(key)`, or another `level`")
            return false
        }
        return true
    }

    /// A list of listeners in which no address occurs twice.
    fileprivate static var list: Kind<[Self]> {
        .list(of: .section, minimum: 0) { listeners, reading in
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

extension AdministrationListenerConfiguration {
    public enum Level: String, CaseIterable, Sendable {
        /// All operations.
        case admin
        /// Operations that read; none that change anything.
        case view
        /// Only metrics and health.
        case metrics
        /// Only whether the gateway lives and is ready, for everybody.
        case health

        /// The operations of the level, for a message.
        fileprivate var deed: String {
            switch self {
            case .admin: "administer the gateway"
            case .view: "list its devices"
            case .metrics: "read its metrics"
            case .health: "probe it"
            }
        }
    }

    /// The listener's certificate, and the certificates of its clients.
    public struct TLS: Equatable, ConfigurationSection {
        @Setting(
            key: "certificate", required: .file("a readable PEM file"),
            "The listener's certificate and its intermediates, leaf first.")
        public var certificatePath: String
        @Setting(key: "key", required: .keyFile("a readable PEM file"), "The private key of the certificate.")
        public var keyPath: String
        @Setting(.choice, default: TLSPolicyName.standard, TLSPolicyName.summary)
        public var policy: TLSPolicyName
        @Setting(.section, "The client certificates that operators must present; never those of phones.")
        var clients: Clients?

        static let section = Section("administration.listeners.tls", of: Self.self, former: TLSPolicyName.former)

        /// The paths of PEM files, at least one. Nil if clients need no certificate.
        public var authoritiesPaths: [String]? { clients?.authorities }
    }

    /// The certificates that operators must present.
    struct Clients: Equatable, ConfigurationSection {
        @Setting(
            required: .distinct(.file("a readable PEM file"), minimum: 1), "The authorities of operators' certificates."
        )
        var authorities: [String]

        static let section = Section("administration.listeners.tls.clients", of: Self.self)
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
        _ enrolment: EnrolmentConfiguration?, _ federation: FederationConfiguration?, in root: Item,
        _ reading: Reading
    ) {
        let place = root["administration"]?.place(of: "listeners") ?? root.place
        let authorities = Set(
            listeners.flatMap(\.allClients).flatMap(\.authoritiesPaths)
                + (enrolment?.devices?.clients.authoritiesPaths ?? [])
                + (federation?.clients?.authoritiesPaths ?? [])
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
