internal import GatewayConfiguration
internal import Registry

extension PostgreSQLSettings {
    init(_ configuration: PostgreSQLConfiguration) {
        let security =
            configuration.tls.map {
                Security.verified(
                    authorities: $0.authoritiesPath, certificate: $0.certificatePath, key: $0.keyPath)
            } ?? .none
        self.init(
            hosts: configuration.hosts, port: configuration.port, database: configuration.database,
            user: configuration.user, security: security,
            // A file that cannot be read any more is told by the database, which refuses whoever comes without a password.
            password: { (try? Self.readPassword(configuration)) ?? nil })
    }

    /// The file's first line. - Returns: nil if there is to be none.
    static func readPassword(_ configuration: PostgreSQLConfiguration) throws(StartupError) -> String? {
        guard let path = configuration.passwordPath else { return nil }
        let bytes: [UInt8]
        do throws(FileContents.Failure) { bytes = try FileContents.readPrivate(path) } catch {
            throw StartupError("registry: postgresql: password_file: \(path): \(error.reason)")
        }
        let line = bytes.prefix { $0 != UInt8(ascii: "\n") && $0 != UInt8(ascii: "\r") }
        guard !line.isEmpty, !line.contains(0) else {
            throw StartupError("registry: postgresql: password_file: \(path): its first line holds no password")
        }
        return String(decoding: line, as: UTF8.self)
    }
}
