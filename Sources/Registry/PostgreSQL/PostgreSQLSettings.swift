package import EventLoop

/// Which PostgreSQL database holds the registry, and how to get there.
public struct PostgreSQLSettings: Sendable {
    /// How the database proves itself, and we to it.
    public enum Security: Equatable, Sendable {
        /// For Unix sockets, which need none, and for loopback.
        case none
        /// The certificate must be of one of these authorities, and of the host's name. - authorities: a PEM file; certificate and
        /// key: PEM files of ours, for databases that ask for them.
        case verified(authorities: String, certificate: String?, key: String?)
    }

    /// Names, addresses, or directories of Unix sockets, in the order they are tried; at least one.
    public var hosts: [String]
    public var port: Int
    public var database: String
    public var user: String
    /// Asked for each connection, so that it can change. Nil if there is none.
    public var password: @Sendable () -> String?
    public var security: Security
    /// What the database is compared with before it is used; nil in tests alone.
    public var witness: WitnessSettings?
    /// What names in it are made with; nil for commands, which make none.
    public var secret: SecretClaim?

    /// What tests make shorter.
    package var limits = Limits()

    package struct Limits: Equatable, Sendable {
        /// Until a host has let us in.
        package var connecting = TimeSpan.seconds(5)
        /// Until a statement has been answered; then the connection is dropped, and what was under way is unknown.
        package var answering = TimeSpan.seconds(3)
        /// Until the database itself gives up a statement, before that.
        package var statement = TimeSpan.milliseconds(2_000)
        /// Until a value is given up that others keep changing the device of.
        package var queueing = TimeSpan.seconds(3)
        /// Statements with counters that are under way together.
        package var depth = 2
        /// Devices in one of them.
        package var rows = 1_024
        /// Devices of which it is remembered what the database says.
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

    /// As libpq takes them. Everything that an environment variable or a file could say otherwise is said.
    func parameters(of host: String) -> [(String, String)] {
        var parameters = [
            ("host", host), ("port", "\(port)"), ("dbname", database), ("user", user),
            // A standby is as good as a host that is not there.
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

    /// No file can have this name, so that none in the home directory is taken.
    private static let nowhere = "/dev/null/none"

    /// For messages: no secret is in it.
    var name: String { "\(hosts.joined(separator: ",")), database \(database)" }
}

extension TimeSpan {
    fileprivate var milliseconds: Int64 { nanoseconds / 1_000_000 }
}
