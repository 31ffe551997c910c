internal import Cryptography
internal import EventLoop
internal import GatewayConfiguration
internal import Registry
internal import TLS

/// Where clients connect, with every file it takes read.
extension Blueprint {
    struct Listener: Sendable {
        let address: SocketAddress
        let certificates: PEMFile
        let key: PEMFile
        let authorities: [PEMFile]
        /// The same lists for all workers.
        let admission: ClientAdmission
        let revocationLists: [SignedRevocationList]
        let policy: TLSPolicy
        /// The same for all workers; nil if nothing is stapled.
        let staple: StapledResponse?
        let name: String
    }

    /// A file's bytes, and its name for whoever has to mend it.
    struct PEMFile: Sendable {
        let path: String
        let bytes: [UInt8]

        init(_ path: String) throws {
            self.path = path
            bytes = try FileContents.read(path)
        }
    }

    /// Builds every TLS context once and drops it, so that a bad certificate is found before anything is started.
    ///
    /// - Returns: the certificates, and what is doubtful but no reason not to start.
    func checkTLS() throws(StartupError) -> ([CertificateExpiry], warnings: [String]) {
        let library: LibraryContext
        do throws(CryptographyError) { library = try LibraryContext() } catch { throw StartupError(error.description) }
        let sessions = SessionTable(limit: 1)
        var known: [CertificateExpiry] = []
        var warnings: [String] = []
        if let enrolment {
            known += enrolment.certificates
            if enrolment.certificates.contains(where: { $0.notAfter <= WallClock.seconds }) {
                warnings.append("enrolment: a certificate of the listener or the CA, or a root of an app, has expired")
            }
            warnings += enrolment.warnings
        }
        for listener in listeners {
            _ = try listener.makeContext(library, sessions)
            let files = [(listener.certificates, CertificateExpiry.Role.server)]
            for (file, role) in files + listener.authorities.map({ ($0, .authority) }) {
                let certificates = try listener.certificates(in: file, library)
                if role == .server {
                    warnings += Self.missingStaple(certificates, listener.staple).map {
                        "listener \(listener.name): \($0)"
                    }
                }
                known += certificates.map { CertificateExpiry($0, role: role, listener: listener.name) }
                if certificates.contains(where: \.isExpired) {
                    warnings.append("listener \(listener.name): \(file.path): a certificate in it has expired")
                }
            }
        }
        return (known, warnings)
    }
}

extension Blueprint.Listener {
    init(_ listener: ListenerConfiguration) throws(StartupError) {
        do {
            let authorities = try listener.clients.authoritiesPaths.map { try Blueprint.PEMFile($0) }
            let lists = try Blueprint.revocationLists(listener.clients, authorities)
            let certificates = try Blueprint.PEMFile(listener.tls.certificatePath)
            self.init(
                address: try SocketAddress(listener.address.description),
                certificates: certificates, key: try Blueprint.PEMFile(listener.tls.keyPath), authorities: authorities,
                admission: Blueprint.admission(listener.clients, lists), revocationLists: lists,
                policy: TLSPolicy(listener.tls.policy),
                staple: try Blueprint.staple(listener.tls, for: certificates.bytes),
                name: listener.address.description)
        } catch {
            throw StartupError("listener \(listener.address): \(error)")
        }
    }

    /// - Parameter registry: whose word is asked for in handshakes; nil if there is none.
    func makeContext(
        _ library: LibraryContext, _ sessions: SessionTable, asking registry: DeviceRegistry? = nil
    ) throws(StartupError) -> ServerContext {
        let chain = try certificates(in: certificates, library)
        let privateKey = try parse(key) { pem throws(CryptographyError) in try PrivateKey(pem: pem, library) }
        var trusted: [Certificate] = []
        for file in authorities { trusted += try certificates(in: file, library) }
        do throws(CryptographyError) {
            return try ServerContext(
                chain: chain, key: privateKey, authorities: trusted, admission: admission.asking(registry),
                policy: policy, staple: staple, sessions: sessions, library: library)
        } catch {
            throw StartupError("listener \(name): \(error)")
        }
    }

    func certificates(
        in file: Blueprint.PEMFile, _ library: LibraryContext
    ) throws(StartupError) -> [Certificate] {
        try parse(file) { pem throws(CryptographyError) in try Certificate.all(inPEM: pem, library) }
    }

    private func parse<Value>(
        _ file: Blueprint.PEMFile, _ body: ([UInt8]) throws(CryptographyError) -> Value
    ) throws(StartupError) -> Value {
        do throws(CryptographyError) { return try body(file.bytes) } catch {
            throw StartupError("listener \(name): \(file.path): \(error)")
        }
    }
}

extension Certificate {
    /// One whose end cannot be read counts as over.
    fileprivate var isExpired: Bool { (notAfter ?? 0) <= WallClock.seconds }
}
