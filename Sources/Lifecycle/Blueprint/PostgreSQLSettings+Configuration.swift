internal import Cryptography
public import GatewayConfiguration
public import RegistryPostgreSQL

extension PostgreSQLSettings {
    /// Converts the settings of the conf file.
    public init(_ configuration: PostgreSQLConfiguration) {
        let security =
            configuration.tls.map {
                Security.verified(
                    authorities: $0.authoritiesPath, certificate: $0.certificatePath, key: $0.keyPath)
            } ?? .none
        self.init(
            hosts: configuration.hosts, port: configuration.port, database: configuration.database,
            user: configuration.user, security: security,
            // If a file can no longer be read, the database reports it: it refuses connections without a password.
            password: { (try? Self.readPassword(configuration)) ?? nil })
    }

    /// Checks the TLS files. libpq reads them only when it connects, and reports errors then.
    static func checkTLS(_ configuration: PostgreSQLConfiguration) throws(StartupError) {
        guard let tls = configuration.tls else { return }
        // A server's own certificate may be trusted, so it need not be that of an authority.
        do { _ = try Certificate.all(inPEM: try FileContents.read(tls.authoritiesPath), try LibraryContext()) } catch {
            throw StartupError(
                in: "registry: postgresql: \(tls.authoritiesPath)", error, of: .file(tls.authoritiesPath),
                section: tls.place)
        }
        guard let certificate = tls.certificatePath, let key = tls.keyPath else { return }
        do throws(FileContents.Failure) { _ = try FileContents.readPrivate(key) } catch {
            throw StartupError("registry: postgresql: \(error)", of: .privateKey(key).within(tls.place))
        }
        guard let culprit = FaultyFile.among(certificate: certificate, key: key, in: tls.place) else { return }
        throw StartupError(
            "registry: postgresql: \(certificate), \(key): they are not a certificate and its key", of: culprit)
    }

    /// Reads the first line of the password file.
    ///
    /// - Returns: Nil if no file is configured.
    static func readPassword(_ configuration: PostgreSQLConfiguration) throws(StartupError) -> String? {
        guard let path = configuration.passwordPath else { return nil }
        let bytes: [UInt8]
        do throws(FileContents.Failure) { bytes = try FileContents.readPrivate(path) } catch {
            throw StartupError("registry: postgresql: password_file: \(path): \(error.reason)", of: .file(path))
        }
        let line = bytes.prefix { $0 != UInt8(ascii: "\n") && $0 != UInt8(ascii: "\r") }
        guard !line.isEmpty, !line.contains(0) else {
            throw StartupError(
                "registry: postgresql: password_file: \(path): its first line has no password", of: .file(path))
        }
        return String(decoding: line, as: UTF8.self)
    }
}
