internal import Cryptography
internal import EventLoop
internal import GatewayConfiguration
internal import Registry
internal import Server
internal import TLS

/// Where clients connect, with every file it takes read.
extension Blueprint {
    struct Listener: Sendable {
        let address: SocketAddress
        let name: String
        /// Those that requests may name.
        let ports: [UInt16]
        let proxies: TrustedProxies
        /// That may be open, per worker.
        let connections: Int
        /// Of clients that ask for no host, or for one that is not among `hosts`.
        let standard: Host
        let hosts: [Host]

        var allHosts: [Host] { [standard] + hosts }
    }

    /// One of the hosts of a listener, or the listener itself for everybody else.
    struct Host: Sendable {
        /// None of the listener itself.
        let names: [ServerName]
        let certificates: PEMFile
        let key: PEMFile
        let authorities: [PEMFile]
        /// The same lists for all workers.
        let admission: ClientAdmission
        let revocationLists: [SignedRevocationList]
        let policy: TLSPolicy
        /// The listener's.
        let protocols: [ApplicationProtocol]
        /// The same for all workers; nil if nothing is stapled.
        let staple: StapledResponse?
        /// Where that is, for people: "listener 127.0.0.1:8443, host records.example.org".
        let place: String

        /// What it is called where it has to be short: by its first name. Nil for the listener itself.
        var label: String? { names.first?.text }
    }

    /// A file's bytes, and its name for a diagnostic.
    struct PEMFile: Sendable {
        let path: String
        let bytes: [UInt8]

        init(_ path: String) throws {
            self.path = path
            bytes = try FileContents.read(path)
        }

        /// Reads a private key, which must be its owner's alone.
        init(key path: String) throws {
            self.path = path
            bytes = try FileContents.readPrivate(path)
        }
    }

    /// Builds every TLS context once and drops it, so that a bad certificate is found before anything is started.
    ///
    /// - Returns: the certificates, and what is doubtful but no reason not to start.
    func checkTLS() throws(StartupError) -> ([CertificateExpiry], warnings: [StartupWarning]) {
        let library: LibraryContext
        do throws(CryptographyError) { library = try LibraryContext() } catch { throw StartupError(error.description) }
        let sessions = SessionTable(limit: 1)
        var known: [CertificateExpiry] = []
        var warnings: [StartupWarning] = []
        if let enrolment {
            known += enrolment.certificates
            warnings += enrolment.warnings
        }
        known += try expiriesOfUpstreams(library)
        for listener in listeners {
            for host in listener.allHosts {
                _ = try host.makeContext(library, sessions)
                let files = [(host.certificates, CertificateExpiry.Role.server)]
                for (file, role) in files + host.authorities.map({ ($0, .authority) }) {
                    let certificates = try host.certificates(in: file, library)
                    if role == .server { warnings += host.warnings(of: certificates) }
                    known += certificates.map {
                        CertificateExpiry($0, role: role, listener: listener.name, host: host.label)
                    }
                }
            }
        }
        return (known, try warnings + unnamedHosts(library))
    }

    /// Hosts of routes that no certificate names by which they are served: clients refuse the connection before a request. Those
    /// of a listener's `hosts` are looked at by their own names.
    private func unnamedHosts(_ library: LibraryContext) throws(StartupError) -> [StartupWarning] {
        var warnings: [StartupWarning] = []
        var checked: Set<String> = []
        for route in routes {
            let name = String(decoding: route.host, as: UTF8.self)
            guard !Self.isAddress(name), checked.insert(name).inserted else { continue }
            var strange: Host?
            var isNamed = false
            for listener in listeners where !listener.hosts.contains(where: { $0.names.contains { $0.text == name } }) {
                let host = listener.standard
                let chain = try host.certificates(in: host.certificates, library)
                if chain.first?.isGood(forHost: name) ?? true { isNamed = true }
                strange = strange ?? host
            }
            guard let strange, !isNamed else { continue }
            let path = strange.certificates.path
            let subject = "the certificate does not contain the name \(name) of the route `\(route.name)`"
            warnings.append(StartupWarning("\(strange.place): \(path): \(subject)", of: .file(path)))
        }
        return warnings
    }

    /// Of routes: a name's last label has a letter.
    private static func isAddress(_ host: String) -> Bool {
        host.hasPrefix("[") || host.allSatisfy { $0 == "." || $0.isNumber }
    }
}

extension Blueprint.Listener {
    init(_ listener: ListenerConfiguration) throws(StartupError) {
        let name = listener.address.description
        do { address = try SocketAddress(name) } catch {
            throw StartupError("listener \(name): \(error)", of: .address(name))
        }
        self.name = name
        ports = [listener.address.port] + listener.ports.map(UInt16.init)
        proxies = TrustedProxies(listener.proxyProtocol)
        connections = listener.connections ?? .max
        standard = try Blueprint.Host(
            [], listener.tls, listener.clients, listener.protocols, place: "listener \(name)")
        var hosts: [Blueprint.Host] = []
        for host in listener.hosts {
            let place = "listener \(name), host \(host.names.first ?? "")"
            hosts.append(try Blueprint.Host(host.names, host.tls, host.clients, listener.protocols, place: place))
        }
        self.hosts = hosts
    }

    /// - Parameter registry: whose word is asked for in handshakes; nil if there is none.
    func makeHosts(
        _ library: LibraryContext, _ sessions: SessionTable, asking registry: DeviceRegistry?
    ) throws(StartupError) -> VirtualHosts {
        var contexts: [ServerContext] = []
        for host in hosts { contexts.append(try host.makeContext(library, sessions, asking: registry)) }
        return VirtualHosts(try standard.makeContext(library, sessions, asking: registry), hosts: contexts)
    }
}

extension Blueprint.Host {
    init(
        _ names: [String], _ tls: ListenerConfiguration.TLS, _ clients: ListenerConfiguration.Clients,
        _ protocols: [ProtocolName], place: String
    ) throws(StartupError) {
        // The configuration admits no name that is none here.
        self.names = names.compactMap { ServerName($0) }
        precondition(self.names.count == names.count, "a host has a name that no client can request")
        self.place = place
        do {
            authorities = try clients.authoritiesPaths.map { try Blueprint.PEMFile($0) }
            revocationLists = try Blueprint.revocationLists(clients, authorities)
            admission = Blueprint.admission(clients, revocationLists)
            certificates = try Blueprint.PEMFile(tls.certificatePath)
            key = try Blueprint.PEMFile(key: tls.keyPath)
            policy = TLSPolicy(tls.policy)
            self.protocols = protocols.map(ApplicationProtocol.init)
            staple = try Blueprint.staple(tls, for: certificates.bytes)
        } catch {
            throw StartupError(in: place, error)
        }
    }

    /// - Parameter registry: whose word is asked for in handshakes; nil if there is none.
    func makeContext(
        _ library: LibraryContext, _ sessions: SessionTable, asking registry: DeviceRegistry? = nil
    ) throws(StartupError) -> ServerContext {
        let chain = try certificates(in: certificates, library)
        let privateKey = try parse(key, .privateKey(key.path)) { pem throws(CryptographyError) in
            try PrivateKey(pem: pem, library)
        }
        var trusted: [Certificate] = []
        for file in authorities { trusted += try certificates(in: file, library) }
        do throws(CryptographyError) {
            return try ServerContext(
                names: names, chain: chain, key: privateKey, authorities: trusted,
                admission: admission.asking(registry),
                policy: policy, protocols: protocols, staple: staple, sessions: sessions, library: library)
        } catch {
            let culprit = FaultyFile.among(
                certificate: certificates.path, key: key.path, authorities: authorities.map(\.path))
            throw StartupError(in: place, error, of: culprit ?? .file(certificates.path))
        }
    }

    /// What is doubtful about its certificate, but no reason not to start.
    func warnings(of chain: [Certificate]) -> [StartupWarning] {
        let strange = names.filter { !(chain.first?.isGood(forHost: $0.text) ?? true) }
        let texts =
            Blueprint.missingStaple(chain, staple).map { "\(place): \($0)" }
            + [chain.first].compactMap(\.self).filter { !$0.isGoodForServers }.map {
                "\(place): \(certificates.path): the certificate of \($0.subject) is not a server certificate: clients will refuse it"
            }
            + strange.map { "\(place): \(certificates.path): the certificate does not contain the name \($0.text)" }
        return texts.map { StartupWarning($0, of: .file(certificates.path)) }
    }

    func certificates(
        in file: Blueprint.PEMFile, _ library: LibraryContext
    ) throws(StartupError) -> [Certificate] {
        try parse(file) { pem throws(CryptographyError) in try Certificate.all(inPEM: pem, library) }
    }

    private func parse<Value>(
        _ file: Blueprint.PEMFile, _ subject: Subject? = nil, _ body: ([UInt8]) throws(CryptographyError) -> Value
    ) throws(StartupError) -> Value {
        do throws(CryptographyError) { return try body(file.bytes) } catch {
            throw StartupError("\(place): \(file.path): \(error)", of: subject ?? .file(file.path))
        }
    }
}

extension ApplicationProtocol {
    init(_ name: ProtocolName) {
        self =
            switch name {
            case .http2: .http2
            case .http11: .http11
            }
    }
}
