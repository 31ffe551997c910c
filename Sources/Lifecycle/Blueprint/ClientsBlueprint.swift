internal import Cryptography
internal import Encoding
internal import EventLoop
internal import Gateway
internal import GatewayConfiguration
internal import Registry
internal import TLS

/// Whose certificates are accepted, with every file read: by a listener, by one of its hosts, or behind a proxy.
struct ClientsBlueprint: Sendable {
    let authorities: [PEMFile]
    /// The same lists for all workers.
    let admission: ClientAdmission
    let revocationLists: [SignedRevocationList]
    /// Whether clients are refused if the revocation list of their authority is stale.
    let requiresFreshLists: Bool
    /// The stale lists that refuse clients, at the time of reading.
    let listWarnings: [StartupWarning]
    /// The place in messages: "listener 127.0.0.1:8443, host records.example.org".
    let place: String
    /// The section of the conf file.
    private let section: Place

    init(_ clients: ListenerConfiguration.Clients, place: String) throws(StartupError) {
        self.place = place
        section = clients.place
        do {
            authorities = try clients.authoritiesPaths.map { try PEMFile($0, in: clients.place) }
            let lists = try Self.revocationLists(clients, authorities)
            revocationLists = lists.map(\.list)
            requiresFreshLists = clients.revocationPolicy == .requireFresh
            listWarnings =
                requiresFreshLists
                ? lists.compactMap { Self.warning(of: $0.list, $0.path, place, in: clients.place) } : []
            admission = Self.admission(clients, revocationLists)
        } catch {
            throw StartupError(in: place, error)
        }
    }

    /// Returns the certificates of the trusted authorities.
    func trusted(_ library: LibraryContext) throws(StartupError) -> [Certificate] {
        var trusted: [Certificate] = []
        for file in authorities { trusted += try file.certificates(place, library) }
        return trusted
    }

    /// The file of an authority that is unusable, if one is.
    var faultyFile: Subject? { FaultyFile.among(authorities: authorities.map(\.path), in: section) }

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
            revocation: check, pins: clients.pins.map(Set.init),
            names: clients.names.map(Set.init))
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

/// The clients whose certificates the peers of a listener state.
struct ForwardedClientsBlueprint: Sendable {
    let clients: ClientsBlueprint
    private let fields: ForwardedClients.Fields

    init(_ section: ForwardedCertificateConfiguration, place: String) throws(StartupError) {
        clients = try ClientsBlueprint(section.clients, place: place)
        fields = ForwardedClients.Fields(section)
    }

    /// Makes the clients of a worker.
    ///
    /// - Parameter kept: What is kept of certificates for services.
    func make(
        _ library: LibraryContext, keeping kept: CertificateForwarding = .off
    ) throws(StartupError) -> ForwardedClients {
        let trusted = try clients.trusted(library)
        do throws(CryptographyError) {
            // The registry is not asked here: each request asks it for the device of its certificate.
            let trust = try ClientTrust(
                authorities: trusted, admission: clients.admission, keeping: kept, library: library)
            return ForwardedClients(fields, trust: trust, library: library)
        } catch {
            throw StartupError(in: clients.place, error, of: clients.faultyFile)
        }
    }
}

extension ForwardedClients.Fields {
    fileprivate init(_ section: ForwardedCertificateConfiguration) {
        let format: ForwardedCertificateFormat =
            switch section.format {
            case .rfc9440: .rfc9440
            case .pemURLEncoded: .pemURLEncoded
            case .derBase64: .derBase64
            case .xfcc: .xfcc
            case .traefik: .traefik
            }
        let address: ClientAddressField? =
            switch section.address {
            case .forwarded: .forwarded
            case .xForwardedFor: .xForwardedFor
            case nil: nil
            }
        self.init(format, certificate: section.fieldName, chain: section.chainFieldName, address: address)
    }
}

extension ClientAdmission {
    /// Returns a copy that also asks the registry's records in memory about a key. `TLS` does not know the registry,
    /// and does not wait for it.
    func asking(_ registry: DeviceRegistry?) -> ClientAdmission {
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
