internal import Cryptography
internal import Encoding
internal import EventLoop
internal import GatewayConfiguration
internal import Glibc
internal import Registry
internal import Server
internal import TLS
internal import Vocabulary

/// A listener of clients, with every file it names read.
struct ListenerBlueprint: Sendable {
    let address: SocketAddress
    let name: String
    /// The ports that requests may name.
    let ports: [UInt16]
    let proxies: TrustedProxies
    let peers: AdmittedPeers
    /// The path and file of a Unix socket. Nil for others.
    let socket: (path: String, access: SocketFile.Access)?
    /// The maximum of open connections per worker.
    let connections: Int
    /// For clients that ask for no host, or for one that is not among `hosts`. Nil without TLS.
    let standard: HostBlueprint?
    let hosts: [HostBlueprint]
    /// The clients whose certificates the peers state; nil if the peers are the clients.
    let forwarded: ForwardedClientsBlueprint?

    var allHosts: [HostBlueprint] { [standard].compactMap(\.self) + hosts }
    var protocols: [ApplicationProtocol] { standard?.protocols ?? [.http11] }
    /// Everybody whose certificates are judged, each with the first name of its host.
    var allClients: [(host: String?, clients: ClientsBlueprint)] {
        allHosts.compactMap { host in host.clients.map { (host.label, $0) } }
            + [forwarded].compactMap(\.self).map { (nil, $0.clients) }
    }

    init(_ listener: ListenerConfiguration) throws(StartupError) {
        let name = listener.address.description
        do { address = try SocketAddress(literal: listener.address) } catch {
            throw StartupError("listener \(name): \(error)", of: .address(name))
        }
        self.name = name
        ports = (listener.address.socketPath == nil ? [listener.address.port] : []) + listener.ports.map(UInt16.init)
        proxies = TrustedProxies(listener.proxyProtocol?.from ?? [])
        connections = listener.connections ?? .max
        let place = "listener \(name)"
        socket = try listener.address.socketPath.map { path throws(StartupError) in
            (path, try SocketFile.Access(listener.socket, place: place))
        }
        peers = AdmittedPeers(
            users: try listener.socket?.users?.map { user throws(StartupError) in
                try LocalUser.number(of: user, place: "\(place), socket: users")
            },
            networks: listener.forwardedCertificate?.networks.map { TrustedProxies($0) })
        standard = try listener.tls.map { tls throws(StartupError) in
            try HostBlueprint([], tls, listener.clients, listener.protocols, place: place)
        }
        var hosts: [HostBlueprint] = []
        for host in listener.hosts {
            let place = "listener \(name), host \(host.names.first ?? "")"
            hosts.append(try HostBlueprint(host.names, host.tls, host.clients, listener.protocols, place: place))
        }
        self.hosts = hosts
        forwarded = try listener.forwardedCertificate.map { section throws(StartupError) in
            try ForwardedClientsBlueprint(section, place: "listener \(name), forwarded_certificate")
        }
    }

    /// The warning if this user cannot give the file of the Unix socket to its owner and group.
    var socketWarning: StartupWarning? {
        guard let access = socket?.access, !LocalUser.mayGive(owner: access.owner, group: access.group) else {
            return nil
        }
        let user = "this user (uid \(geteuid()))"
        return StartupWarning(
            "listener \(name): \(user) cannot give the socket to the `owner` and `group`: \(Self.unprivileged)",
            of: .address(name))
    }

    /// What replaces `owner` and `group` where the process may not change them.
    static let unprivileged = "use `mode: \"0666\"` with `users`, which the kernel checks"

    /// Refuses authorities that both proxies and their clients have, or one of which issued the other: a client of theirs
    /// could pass for the proxy, or the proxy for a client.
    func checkSeparation(_ library: LibraryContext) throws(StartupError) {
        guard let forwarded else { return }
        guard let standard, let proxies = try standard.clients?.trusted(library) else { return }
        for file in forwarded.clients.authorities {
            for authority in try file.certificates(forwarded.clients.place, library) {
                let (asProxy, asClient) = ("a client could pass for the proxy", "the proxy could pass for a client")
                func refuse(_ relation: String, _ danger: String) throws(StartupError) {
                    throw StartupError(
                        "\(standard.place): the authority \(authority.subject) \(relation): \(danger); give proxies an"
                            + " authority of their own", of: file.subject)
                }
                for proxy in proxies {
                    if proxy.hasKey(of: authority) {
                        try refuse("is also among the `clients.authorities`", asProxy)
                    }
                    if authority.isIssued(byKeyOf: proxy) {
                        try refuse("was issued by \(proxy.subject) of the `clients.authorities`", asProxy)
                    }
                    if proxy.isIssued(byKeyOf: authority) {
                        try refuse("has issued \(proxy.subject) of the `clients.authorities`", asClient)
                    }
                }
            }
        }
    }

    /// Makes the TLS contexts of a worker: one for the listener and one for each host.
    ///
    /// - Parameters:
    ///   - registry: The registry that is asked in handshakes; nil if there is none.
    ///   - kept: What is kept of clients' certificates for services.
    /// - Returns: Nil without TLS.
    func makeHosts(
        _ library: LibraryContext, _ sessions: SessionTable, asking registry: DeviceRegistry?,
        keeping kept: CertificateForwarding
    ) throws(StartupError) -> VirtualHosts? {
        func make(_ host: HostBlueprint) throws(StartupError) -> ServerContext {
            try host.makeContext(library, sessions, asking: registry, keeping: kept)
        }
        var contexts: [ServerContext] = []
        for host in hosts { contexts.append(try make(host)) }
        guard let standard else { return nil }
        return VirtualHosts(try make(standard), hosts: contexts)
    }
}

/// A host of a listener, or the listener's own settings for all other names.
struct HostBlueprint: Sendable {
    /// Empty for the listener itself.
    let names: [ServerName]
    let certificates: PEMFile
    let key: PEMFile
    /// Nil if no certificates are requested.
    let clients: ClientsBlueprint?
    let policy: TLSPolicy
    /// The protocols of the listener.
    let protocols: [ApplicationProtocol]
    /// The same for all workers; nil if nothing is stapled.
    let staple: StapledResponse?
    /// The section of the conf file.
    private let section: Place
    /// The place in messages: "listener 127.0.0.1:8443, host records.example.org".
    let place: String

    /// The first name, where a short name is needed. Nil for the listener itself.
    var label: String? { names.first?.text }

    init(
        _ names: [String], _ tls: ListenerConfiguration.TLS, _ clients: ListenerConfiguration.Clients?,
        _ protocols: [ProtocolName], place: String
    ) throws(StartupError) {
        // The configuration admits only valid names.
        self.names = names.compactMap { ServerName($0) }
        precondition(self.names.count == names.count, "a host has a name that no client can request")
        self.place = place
        section = tls.place
        self.clients = try clients.map { clients throws(StartupError) in try ClientsBlueprint(clients, place: place) }
        do {
            certificates = try PEMFile(tls.certificatePath, in: tls.place)
            key = try PEMFile(key: tls.keyPath, in: tls.place)
            policy = TLSPolicy(tls.policy)
            self.protocols = protocols.map(ApplicationProtocol.init)
            staple = try StapledResponse.read(tls, for: certificates.bytes)
        } catch {
            throw StartupError(in: place, error)
        }
    }

    /// Makes the TLS context of a worker.
    ///
    /// - Parameters:
    ///   - registry: The registry that is asked in handshakes; nil if there is none.
    ///   - kept: What is kept of clients' certificates for services.
    func makeContext(
        _ library: LibraryContext, _ sessions: SessionTable, asking registry: DeviceRegistry? = nil,
        keeping kept: CertificateForwarding = .off
    ) throws(StartupError) -> ServerContext {
        let chain = try certificates.certificates(place, library)
        let privateKey = try key.parse(place) { pem throws(CryptographyError) in
            try PrivateKey(pem: pem, library)
        }
        let trusted = try clients?.trusted(library)
        do throws(CryptographyError) {
            return try ServerContext(
                names: names, chain: chain, key: privateKey, authorities: trusted,
                admission: clients?.admission.asking(registry) ?? ClientAdmission(), keeping: kept, policy: policy,
                protocols: protocols,
                staple: staple, sessions: sessions, library: library)
        } catch {
            let culprit =
                FaultyFile.among(certificate: certificates.path, key: key.path, in: section) ?? clients?.faultyFile
            throw StartupError(in: place, error, of: culprit ?? certificates.subject)
        }
    }

    /// Returns doubts about the certificate that do not prevent the start.
    func warnings(of chain: [Certificate]) -> [StartupWarning] {
        let strange = names.filter { !(chain.first?.isGood(forHost: $0.text) ?? true) }
        let texts =
            StapledResponse.warnings(of: chain, staple).map { "\(place): \($0)" }
            + [chain.first].compactMap(\.self).filter { !$0.isGoodForServers }.map {
                "\(place): \(certificates.path): the certificate of \($0.subject) is not a server certificate: clients will refuse it"
            }
            + strange.map { "\(place): \(certificates.path): the certificate does not contain the name \($0.text)" }
        return texts.map { StartupWarning($0, of: certificates.subject) }
    }
}

/// The OCSP response that a listener staples.
extension StapledResponse {
    /// Reads the response.
    ///
    /// - Parameter certificates: In PEM, leaf first.
    /// - Returns: Nil if nothing is stapled.
    /// - Throws: If clients would reject it even during its validity.
    static func read(
        _ tls: ListenerConfiguration.TLS, for certificates: [UInt8]
    ) throws -> StapledResponse? {
        guard let path = tls.responsePath else { return nil }
        let file = try FileContents.read(path)
        let library = try LibraryContext()
        let chain: [Certificate]
        do throws(CryptographyError) { chain = try Certificate.all(inPEM: certificates, library) } catch {
            throw StartupError(
                "\(tls.certificatePath): \(error)", of: .file(tls.certificatePath).within(tls.place))
        }
        do throws(CryptographyError) {
            return try StapledResponse(der: file, for: chain, at: WallClock.seconds, library)
        } catch {
            throw StartupError("\(path): \(error)", of: .file(path).within(tls.place))
        }
    }

    /// Returns a warning if the response is not stapled now, or if clients that obey the must-staple extension will
    /// refuse the certificate.
    static func warnings(of chain: [Certificate], _ staple: StapledResponse?) -> [String] {
        if let staple {
            guard !staple.isFresh(at: WallClock.seconds) else { return [] }
            let fault = staple.nextUpdate <= WallClock.seconds ? "stale" : "not yet valid"
            return ["the OCSP response for \(staple.subject) is \(fault) and is not stapled"]
        }
        guard let leaf = chain.first, leaf.demandsStaple else { return [] }
        return [
            "the certificate of \(leaf.subject) requires a stapled OCSP response (must-staple), "
                + "but there is no `ocsp_response`"
        ]
    }
}
