internal import Cryptography
internal import EventLoop
internal import GatewayConfiguration
internal import TLS
internal import Vocabulary

/// Which clients a listener admits, by its files.
extension Blueprint {
    static func admission(
        _ clients: ListenerConfiguration.Clients, _ lists: [SignedRevocationList]
    ) -> ClientAdmission {
        let check: RevocationCheck? =
            switch clients.revocationPolicy {
            case .noLists: nil
            case .acceptStale: RevocationCheck(lists, .acceptStale)
            case .requireFresh: RevocationCheck(lists, .requireFresh)
            }
        return ClientAdmission(
            selfSigned: clients.acceptsRegistered, revocation: check, pins: clients.pins.map(Set.init))
    }

    /// Reads the revocation lists.
    ///
    /// - Throws: if one is not signed by an authority of the listener; where fresh ones are required also if one is not fresh, or
    ///   an authority has none: then nobody would be let in by what is loaded.
    static func revocationLists(
        _ clients: ListenerConfiguration.Clients, _ authorities: [PEMFile]
    ) throws -> [SignedRevocationList] {
        guard !clients.revocationListsPaths.isEmpty else { return [] }
        let library = try LibraryContext()
        var trusted: [Certificate] = []
        for file in authorities {
            let certificates: [Certificate]
            do throws(CryptographyError) { certificates = try Certificate.all(inPEM: file.bytes, library) } catch {
                throw StartupError("\(file.path): \(error)", of: .file(file.path))
            }
            // No list would be found to be signed by it: what is wrong is the authority, and not the list.
            if let none = certificates.first(where: { !$0.isAuthority }) {
                throw StartupError(
                    "\(file.path): \(none.subject) is not a certification authority", of: .file(file.path))
            }
            trusted += certificates
        }
        var lists: [SignedRevocationList] = []
        for path in clients.revocationListsPaths {
            let file = try FileContents.read(path)
            do throws(CryptographyError) {
                for list in try SignedRevocationList.all(in: file, signedBy: trusted, library) {
                    guard !lists.contains(where: { $0.authority == list.authority }) else {
                        throw CryptographyError(doing: "a second revocation list of \(list.issuer)")
                    }
                    lists.append(list)
                }
            } catch {
                throw StartupError("\(path): \(error)", of: .revocationList(path))
            }
            if let stale = lists.first(where: { !$0.isFresh(at: WallClock.seconds) }),
                clients.revocationPolicy == .requireFresh
            {
                throw StartupError(
                    "\(path): the revocation list of \(stale.issuer) is stale or not yet valid",
                    of: .revocationList(path))
            }
        }
        for certificate in trusted where clients.revocationPolicy == .requireFresh {
            let identity = try certificate.authorityIdentity(library)
            guard lists.contains(where: { $0.authority == identity }) else {
                throw StartupError(
                    "there is no revocation list of \(certificate.subject) in `crls`; `crl_policy`: require-fresh",
                    of: clients.revocationListsPaths.first.map { .revocationList($0) })
            }
        }
        return lists
    }
}
