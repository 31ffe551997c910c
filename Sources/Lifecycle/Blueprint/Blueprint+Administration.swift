internal import Administration
internal import Cryptography
internal import EventLoop
internal import GatewayConfiguration
internal import TLS

/// Where the administration is served besides its socket.
extension Blueprint {
    static func administrationListeners(
        _ administration: AdministrationConfiguration?
    ) throws(StartupError) -> [AdministrationListener] {
        var listeners: [AdministrationListener] = []
        for listener in administration?.listeners ?? [] {
            do {
                let made = AdministrationListener(
                    address: try SocketAddress(listener.address.description), name: listener.address.description,
                    hosts: ["localhost:\(listener.address.port)"] + listener.hosts.map(\.description),
                    token: try listener.tokenPath.map(readToken),
                    tls: try listener.tls.map { tls in
                        AdministrationListener.TLS(
                            certificates: try PEMFile(tls.certificatePath).bytes, key: try PEMFile(tls.keyPath).bytes,
                            policy: TLSPolicy(tls.policy),
                            authorities: try tls.authoritiesPaths.map { try $0.map { try PEMFile($0).bytes } })
                    })
                try made.check(try LibraryContext())
                listeners.append(made)
            } catch {
                throw StartupError("administration listener \(listener.address): \(error)")
            }
        }
        return listeners
    }

    /// Until when the certificates of these listeners are good, and what is doubtful about that.
    static func expiries(
        of listeners: [AdministrationListener]
    ) throws(StartupError) -> (certificates: [CertificateExpiry], warnings: [String]) {
        var certificates: [CertificateExpiry] = []
        var warnings: [String] = []
        do throws(CryptographyError) {
            let library = try LibraryContext()
            for listener in listeners {
                let own = try listener.ownCertificates(library).map {
                    CertificateExpiry($0, role: .server, listener: listener.name)
                }
                let authorities = try listener.authorities(library).map {
                    CertificateExpiry($0, role: .authority, listener: listener.name)
                }
                certificates += own + authorities
                if (own + authorities).contains(where: { $0.notAfter <= WallClock.seconds }) {
                    warnings.append(
                        "administration listener \(listener.name): a certificate of it, or of its clients' authorities, "
                            + "has expired")
                }
            }
        } catch {
            throw StartupError("administration: \(error)")
        }
        return (certificates, warnings)
    }

    private static func readToken(_ path: String) throws -> AdministrationToken {
        guard let token = AdministrationToken(try FileContents.readPrivate(path)) else {
            throw StartupError(
                "\(path): a token has at least \(AdministrationToken.shortest) characters, printable and without blanks"
            )
        }
        return token
    }
}
