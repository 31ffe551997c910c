internal import Cryptography
internal import Encoding
internal import EventLoop
internal import GatewayConfiguration
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
    /// The maximum of open connections per worker.
    let connections: Int
    /// For clients that ask for no host, or for one that is not among `hosts`.
    let standard: HostBlueprint
    let hosts: [HostBlueprint]

    var allHosts: [HostBlueprint] { [standard] + hosts }

    init(_ listener: ListenerConfiguration) throws(StartupError) {
        let name = listener.address.description
        do { address = try SocketAddress(name) } catch {
            throw StartupError("listener \(name): \(error)", of: .address(name))
        }
        self.name = name
        ports = [listener.address.port] + listener.ports.map(UInt16.init)
        proxies = TrustedProxies(listener.proxyProtocol)
        connections = listener.connections ?? .max
        standard = try HostBlueprint(
            [], listener.tls, listener.clients, listener.protocols, place: "listener \(name)")
        var hosts: [HostBlueprint] = []
        for host in listener.hosts {
            let place = "listener \(name), host \(host.names.first ?? "")"
            hosts.append(try HostBlueprint(host.names, host.tls, host.clients, listener.protocols, place: place))
        }
        self.hosts = hosts
    }

    /// Makes the TLS contexts of a worker: one for the listener and one for each host.
    ///
    /// - Parameters:
    ///   - registry: The registry that is asked in handshakes; nil if there is none.
    ///   - kept: What is kept of clients' certificates for services.
    func makeHosts(
        _ library: LibraryContext, _ sessions: SessionTable, asking registry: DeviceRegistry?,
        keeping kept: CertificateForwarding
    ) throws(StartupError) -> VirtualHosts {
        func make(_ host: HostBlueprint) throws(StartupError) -> ServerContext {
            try host.makeContext(library, sessions, asking: registry, keeping: kept)
        }
        var contexts: [ServerContext] = []
        for host in hosts { contexts.append(try make(host)) }
        return VirtualHosts(try make(standard), hosts: contexts)
    }
}

/// A host of a listener, or the listener's own settings for all other names.
struct HostBlueprint: Sendable {
    /// Empty for the listener itself.
    let names: [ServerName]
    let certificates: PEMFile
    let key: PEMFile
    let authorities: [PEMFile]
    /// The same lists for all workers.
    let admission: ClientAdmission
    let revocationLists: [SignedRevocationList]
    /// Whether clients are refused if the revocation list of their authority is stale.
    let requiresFreshLists: Bool
    /// The stale lists that refuse clients, at the time of reading.
    private let listWarnings: [StartupWarning]
    let policy: TLSPolicy
    /// The protocols of the listener.
    let protocols: [ApplicationProtocol]
    /// The same for all workers; nil if nothing is stapled.
    let staple: StapledResponse?
    /// The sections of the conf file.
    private let sections: (tls: Place, clients: Place)
    /// The place in messages: "listener 127.0.0.1:8443, host records.example.org".
    let place: String

    /// The first name, where a short name is needed. Nil for the listener itself.
    var label: String? { names.first?.text }

    init(
        _ names: [String], _ tls: ListenerConfiguration.TLS, _ clients: ListenerConfiguration.Clients,
        _ protocols: [ProtocolName], place: String
    ) throws(StartupError) {
        // The configuration admits only valid names.
        self.names = names.compactMap { ServerName($0) }
        precondition(self.names.count == names.count, "a host has a name that no client can request")
        self.place = place
        sections = (tls.place, clients.place)
        do {
            authorities = try clients.authoritiesPaths.map { try PEMFile($0, in: clients.place) }
            let lists = try Self.revocationLists(clients, authorities)
            revocationLists = lists.map(\.list)
            requiresFreshLists = clients.revocationPolicy == .requireFresh
            listWarnings =
                requiresFreshLists
                ? lists.compactMap { Self.warning(of: $0.list, $0.path, place, in: clients.place) } : []
            admission = Self.admission(clients, revocationLists)
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
        let chain = try certificates(in: certificates, library)
        let privateKey = try parse(key) { pem throws(CryptographyError) in
            try PrivateKey(pem: pem, library)
        }
        var trusted: [Certificate] = []
        for file in authorities { trusted += try certificates(in: file, library) }
        do throws(CryptographyError) {
            return try ServerContext(
                names: names, chain: chain, key: privateKey, authorities: trusted,
                admission: admission.asking(registry), keeping: kept, policy: policy, protocols: protocols,
                staple: staple, sessions: sessions, library: library)
        } catch {
            let culprit =
                FaultyFile.among(certificate: certificates.path, key: key.path, in: sections.tls)
                ?? FaultyFile.among(authorities: authorities.map(\.path), in: sections.clients)
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
        return texts.map { StartupWarning($0, of: certificates.subject) } + listWarnings
    }

    /// Returns warnings for authorities none of whose certificates can pass.
    ///
    /// - Parameter certificates: those of a file of `authorities`.
    func warnings(ofAuthorities certificates: [Certificate], in file: PEMFile) -> [StartupWarning] {
        certificates.compactMap { certificate in
            let objection =
                certificate.isGoodForClientAuthorities
                ? admission.keys.objection(to: certificate)
                : "has key usages that exclude client certificates"
            return objection.map {
                StartupWarning(
                    "\(place): \(file.path): the authority \(certificate.subject) \($0): no certificate of it can pass",
                    of: .file(file.path))
            }
        }
    }

    func certificates(
        in file: PEMFile, _ library: LibraryContext
    ) throws(StartupError) -> [Certificate] {
        try parse(file) { pem throws(CryptographyError) in try Certificate.all(inPEM: pem, library) }
    }

    private func parse<Value>(
        _ file: PEMFile, _ body: ([UInt8]) throws(CryptographyError) -> Value
    ) throws(StartupError) -> Value {
        do throws(CryptographyError) { return try body(file.bytes) } catch {
            throw StartupError("\(place): \(file.path): \(error)", of: file.subject)
        }
    }

    private static func admission(
        _ clients: ListenerConfiguration.Clients, _ lists: [SignedRevocationList]
    ) -> ClientAdmission {
        let check: RevocationCheck? =
            switch clients.revocationPolicy {
            case .noLists: nil
            case .acceptStale: RevocationCheck(lists, .acceptStale)
            case .requireFresh: RevocationCheck(lists, .requireFresh)
            }
        return ClientAdmission(
            selfSigned: clients.acceptsRegistered, keys: ClientKeys(clients.keys),
            usage: clients.usage == .required ? .required : .ifPresent, isOptional: clients.areOptional,
            revocation: check, pins: clients.pins.map(Set.init))
    }

    /// Reads the revocation lists, each with the path of its file. A stale one is no error: handshakes refuse the
    /// clients of its authority, and all others are served.
    ///
    /// - Throws: If a list is not signed by an authority of the listener. If fresh lists are required, also if an
    ///   authority has none.
    private static func revocationLists(
        _ clients: ListenerConfiguration.Clients, _ authorities: [PEMFile]
    ) throws -> [(list: SignedRevocationList, path: String)] {
        guard !clients.revocationListsPaths.isEmpty else { return [] }
        let library = try LibraryContext()
        var trusted: [Certificate] = []
        for file in authorities {
            let certificates: [Certificate]
            do throws(CryptographyError) { certificates = try Certificate.all(inPEM: file.bytes, library) } catch {
                throw StartupError("\(file.path): \(error)", of: file.subject)
            }
            // No list would match it: the fault is the authority's, not the list's.
            if let none = certificates.first(where: { !$0.isAuthority }) {
                throw StartupError(
                    "\(file.path): \(none.subject) is not a certification authority", of: file.subject)
            }
            trusted += certificates
        }
        var lists: [(list: SignedRevocationList, path: String)] = []
        for path in clients.revocationListsPaths {
            let file = try FileContents.read(path)
            do throws(CryptographyError) {
                for list in try SignedRevocationList.all(in: file, signedBy: trusted, library) {
                    guard !lists.contains(where: { $0.list.authority == list.authority }) else {
                        throw CryptographyError(doing: "a second revocation list of \(list.issuer)")
                    }
                    lists.append((list, path))
                }
            } catch {
                throw StartupError("\(path): \(error)", of: .revocationList(path).within(clients.place))
            }
        }
        for certificate in trusted where clients.revocationPolicy == .requireFresh {
            let identity = try certificate.authorityIdentity(library)
            guard lists.contains(where: { $0.list.authority == identity }) else {
                throw StartupError(
                    "there is no revocation list of \(certificate.subject) in `crls`; `crl_policy`: require-fresh",
                    of: clients.revocationListsPaths.first.map { .revocationList($0).within(clients.place) })
            }
        }
        return lists
    }

    /// Returns a warning if a list is stale or not yet valid, with its date and what to do.
    private static func warning(
        of list: SignedRevocationList, _ path: String, _ place: String, in section: Place
    ) -> StartupWarning? {
        let now = WallClock.seconds
        guard !list.isFresh(at: now) else { return nil }
        let (state, remedy) =
            list.nextUpdate <= now
            ? (
                "is stale since \(InternetTime(seconds: list.nextUpdate))",
                "replace the file by a fresh list, then reload"
            )
            : (
                "is not valid before \(InternetTime(seconds: list.thisUpdate))",
                "check the clock, or replace the file and reload"
            )
        return StartupWarning(
            "\(place): \(path): the revocation list of \(list.issuer) \(state): all clients of this authority are refused; "
                + remedy, of: .revocationList(path).within(section))
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

extension ClientAdmission {
    /// Returns a copy that also asks the registry's records in memory about a key. `TLS` does not know the registry,
    /// and does not wait for it.
    fileprivate func asking(_ registry: DeviceRegistry?) -> ClientAdmission {
        guard let registry else { return self }
        return asking { key in
            switch registry.knownStanding(of: key) {
            case .deviceRevoked: .deviceRevoked
            case .bindingEnded: .bindingEnded
            case .active, nil: nil
            }
        }
    }
}
