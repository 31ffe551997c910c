internal import Administration
internal import Cryptography
internal import EventLoop
internal import GatewayConfiguration
internal import TLS

/// The TCP listeners of the administration, with the files that the conf file names.
extension AdministrationListener {
    /// Reads the files of all listeners.
    static func all(of administration: AdministrationConfiguration?) throws(StartupError) -> [AdministrationListener] {
        var listeners: [AdministrationListener] = []
        for listener in administration?.listeners ?? [] {
            do {
                let made = AdministrationListener(
                    address: try SocketAddress(listener.address.description), name: listener.address.description,
                    hosts: ["localhost:\(listener.address.port)"] + listener.hosts.map(\.description),
                    token: try listener.tokenPath.map(readToken),
                    tls: try listener.tls.map { tls in
                        AdministrationListener.TLS(
                            certificates: try PEMFile(tls.certificatePath, in: listener.place).bytes,
                            key: try PEMFile(key: tls.keyPath, in: listener.place).bytes,
                            policy: TLSPolicy(tls.policy),
                            authorities: try tls.authoritiesPaths.map {
                                try $0.map { try PEMFile($0, in: listener.place).bytes }
                            })
                    }, level: AdministrationLevel(listener.level))
                try made.check(try LibraryContext())
                listeners.append(made)
            } catch {
                let culprit = listener.tls.flatMap { tls in
                    FaultyFile.among(certificate: tls.certificatePath, key: tls.keyPath, in: listener.place)
                        ?? FaultyFile.among(authorities: tls.authoritiesPaths ?? [], in: listener.place)
                        ?? .file(tls.certificatePath)
                }
                throw StartupError(
                    in: "administration listener \(listener.address)", error, of: culprit, section: listener.place)
            }
        }
        return listeners
    }

    /// Returns the expiry of the listeners' certificates.
    static func expiries(of listeners: [AdministrationListener]) throws(StartupError) -> [CertificateExpiry] {
        var certificates: [CertificateExpiry] = []
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
            }
        } catch {
            throw StartupError("administration: \(error)")
        }
        return certificates
    }

    /// Returns a warning for each listener whose token also opens one of a higher level.
    static func warnings(of listeners: [AdministrationListener], _ administration: AdministrationConfiguration?)
        -> [StartupWarning]
    {
        var warnings: [StartupWarning] = []
        for less in listeners {
            let path = administration?.listeners.first { $0.address.description == less.name }?.tokenPath
            for more in listeners where more.level > less.level && more.sharesToken(with: less) {
                warnings.append(
                    StartupWarning(
                        "administration listener \(less.name): its token also opens \(more.name), whose level is "
                            + "\(more.level.rawValue): use a different token for each", of: path.map { .file($0) }))
            }
        }
        return warnings
    }

    private static func readToken(_ path: String) throws -> AdministrationToken {
        guard let token = AdministrationToken(try FileContents.readPrivate(path)) else {
            throw StartupError(
                "\(path): a token must have at least \(AdministrationToken.shortest) printable characters and no spaces",
                of: .file(path))
        }
        return token
    }
}

extension AdministrationLevel {
    fileprivate init(_ level: AdministrationListenerConfiguration.Level) {
        self =
            switch level {
            case .admin: .admin
            case .view: .view
            case .metrics: .metrics
            case .health: .health
            }
    }
}
