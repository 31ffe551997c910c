internal import CLibpq
package import EventLoop
public import Registry
public import RevocationJournal

/// The PostgreSQL database of a registry and the access to it.
public struct PostgreSQLSettings: Sendable {
    /// The authentication of both sides of a connection.
    public enum Security: Equatable, Sendable {
        /// No encryption, for Unix sockets and loopback.
        case none
        /// TLS with a certificate of one of the authorities for the host's name. All are paths of PEM files. The
        /// database may ask for our certificate with its key.
        case verified(authorities: String, certificate: String?, key: String?)
    }

    /// Names, addresses or directories of Unix sockets, in the order of connection attempts. At least one.
    public var hosts: [String]
    public var port: Int
    public var database: String
    public var user: String
    /// Returns the password. It is called for each connection, so that the password can change. Nil if there is none.
    public var password: @Sendable () -> String?
    public var security: Security
    /// The witness that the database is compared with. It is nil only in tests.
    public var witness: WitnessSettings?
    /// The secret for pseudonyms. It is nil for commands, which create none.
    public var secret: SecretClaim?

    /// Limits that tests shorten.
    package var limits = Limits()

    package struct Limits: Equatable, Sendable {
        /// The timeout for connecting to a host.
        package var connecting = TimeSpan.seconds(5)
        /// The timeout of a statement. Then the connection is closed, and the outcome of its statements is unknown.
        package var answering = TimeSpan.seconds(3)
        /// The timeout of a statement in the database, which is shorter than `answering`.
        package var statement = TimeSpan.milliseconds(2_000)
        /// The timeout of a value whose device others keep changing.
        package var queueing = TimeSpan.seconds(3)
        /// The maximum number of concurrent statements with counters.
        package var depth = 2
        /// The maximum number of devices in such a statement.
        package var rows = 1_024
        /// The maximum number of devices whose database state is kept in memory.
        package var records = 65_536

        package init() {}
    }

    public init(
        hosts: [String], port: Int, database: String, user: String, security: Security,
        password: @escaping @Sendable () -> String? = { nil }
    ) {
        self.hosts = hosts
        self.port = port
        self.database = database
        self.user = user
        self.password = password
        self.security = security
    }

    /// Returns parameters for libpq. All parameters that environment variables or files could set are included.
    func parameters(of host: String) -> [(String, String)] {
        var parameters = [
            ("host", host), ("port", "\(port)"), ("dbname", database), ("user", user),
            // A standby is treated like an unavailable host.
            ("target_session_attrs", "read-write"), ("application_name", "attestgate"), ("client_encoding", "UTF8"),
            ("gssencmode", "disable"), ("tcp_user_timeout", "\(limits.answering.milliseconds)"),
            ("passfile", Self.nowhere), ("password", password() ?? ""),
            (
                "options",
                "-c search_path=attestgate -c statement_timeout=\(limits.statement.milliseconds) "
                    + "-c lock_timeout=\(limits.statement.milliseconds) "
                    + "-c idle_in_transaction_session_timeout=\(2 * limits.answering.milliseconds)"
            ),
        ]
        switch security {
        case .none: parameters.append(("sslmode", "disable"))
        case .verified(let authorities, let certificate, let key):
            parameters += [
                ("sslmode", "verify-full"), ("sslrootcert", authorities), ("sslcert", certificate ?? Self.nowhere),
                ("sslkey", key ?? Self.nowhere), ("ssl_min_protocol_version", "TLSv1.2"),
            ]
        }
        return parameters
    }

    /// A path that no file can have, so that libpq reads none from the home directory.
    private static let nowhere = "/dev/null/none"

    /// The version of libpq, such as `15.18`. PQlibVersion returns it as major * 10000 + minor.
    public static var libpqVersion: String {
        let number = PQlibVersion()
        return "\(number / 10_000).\(number % 10_000)"
    }

    /// The name for messages, without secrets.
    var name: String { "\(hosts.joined(separator: ",")), database \(database)" }
}

extension TimeSpan {
    fileprivate var milliseconds: Int64 { nanoseconds / 1_000_000 }
}
