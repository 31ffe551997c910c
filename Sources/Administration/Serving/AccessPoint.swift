public import Cryptography
public import EventLoop
public import TLS

/// An entrance to the administration, with the credentials that it requires.
struct AccessPoint: Equatable {
    /// The name in the log.
    let name: String
    /// The permitted values of the Host field. A web page whose own name was resolved to this address sends that name
    /// instead.
    let hosts: [String]
    /// The required token. Nil if a socket's mode or client certificates authenticate.
    let token: AdministrationToken?
    /// Whether TLS is used.
    let isSecure: Bool
    /// Whether the page is served. Browsers cannot connect to a Unix socket.
    let servesPage: Bool
    /// The permissions of authenticated clients.
    var level = AdministrationLevel.admin

    static let socket = AccessPoint(
        name: "the socket", hosts: ["localhost"], token: nil, isSecure: false, servesPage: false)
}

/// A TCP listener of the administration.
public struct AdministrationListener: Equatable, Sendable {
    /// The TLS settings of a listener.
    public struct TLS: Equatable, Sendable {
        let certificates: [UInt8]
        let key: [UInt8]
        let policy: TLSPolicy
        /// The trusted authorities of client certificates. Nil if none are requested.
        let authorities: [[UInt8]]?

        /// Creates a value. All texts are in PEM, and each authority's may contain several certificates.
        public init(certificates: [UInt8], key: [UInt8], policy: TLSPolicy, authorities: [[UInt8]]?) {
            self.certificates = certificates
            self.key = key
            self.policy = policy
            self.authorities = authorities
        }
    }

    let address: SocketAddress
    let accessPoint: AccessPoint
    /// The address as text.
    public var name: String { accessPoint.name }
    let tls: TLS?

    /// Creates a listener.
    ///
    /// - Parameters:
    ///   - name: The address as text, a permitted value of the Host field.
    ///   - hosts: Other permitted values of the Host field.
    ///   - token: Nil only with TLS that requests certificates, or at the level `health`.
    ///   - level: The permissions of authenticated clients.
    public init(
        address: SocketAddress, name: String, hosts: [String], token: AdministrationToken?, tls: TLS?,
        level: AdministrationLevel = .admin
    ) {
        precondition(
            token != nil || tls?.authorities != nil || level == .health,
            "a TCP address is open to every process of the machine")
        self.address = address
        self.tls = tls
        accessPoint = AccessPoint(
            name: name, hosts: [name] + hosts, token: token, isSecure: tls != nil,
            servesPage: level >= .view, level: level)
    }

    /// Creates the TLS context.
    ///
    /// - Throws: if certificates or key cannot be used.
    func makeContext(_ library: LibraryContext) throws(CryptographyError) -> ServerContext? {
        guard let tls else { return nil }
        return try ServerContext(
            chain: try ownCertificates(library), key: try PrivateKey(pem: tls.key, library),
            authorities: tls.authorities == nil ? nil : try authorities(library),
            admission: ClientAdmission(keys: .strong), policy: tls.policy,
            sessions: SessionTable(limit: Self.sessions), library: library)
    }

    /// Returns the listener's certificates, leaf first. Empty without TLS.
    public func ownCertificates(_ library: LibraryContext) throws(CryptographyError) -> [Certificate] {
        guard let tls else { return [] }
        return try Certificate.all(inPEM: tls.certificates, library)
    }

    /// Returns the trusted authorities of client certificates. Empty if none are requested.
    public func authorities(_ library: LibraryContext) throws(CryptographyError) -> [Certificate] {
        var certificates: [Certificate] = []
        for text in tls?.authorities ?? [] { certificates += try Certificate.all(inPEM: text, library) }
        return certificates
    }

    /// Returns whether both listeners have the same token.
    public func sharesToken(with other: AdministrationListener) -> Bool {
        accessPoint.token != nil && accessPoint.token == other.accessPoint.token
    }

    public var level: AdministrationLevel { accessPoint.level }

    /// Checks certificates and key without serving anything.
    public func check(_ library: LibraryContext) throws(CryptographyError) { _ = try makeContext(library) }

    /// Size of the session table, which is separate from that of the gateway's clients.
    private static let sessions = 64
}

/// The level of an endpoint, and the greatest level that a listener permits.
public enum AdministrationLevel: String, Comparable, CaseIterable, Sendable {
    /// Whether the gateway lives and is ready, for clients without credentials.
    case health
    /// Metrics and health, for scrapers. They contain nothing about a device or a request.
    case metrics
    /// All reading endpoints, including the page, except the export of the whole registry.
    case view
    /// All endpoints.
    case admin

    public static func < (left: Self, right: Self) -> Bool { left.rank < right.rank }

    private var rank: Int {
        switch self {
        case .health: 0
        case .metrics: 1
        case .view: 2
        case .admin: 3
        }
    }
}

/// The clients that an endpoint is for.
enum EndpointAccess: Equatable {
    /// Clients with the credentials of the listener.
    case operators
    /// The access point's own page before it has a session.
    case page
    /// All clients. The page's files say nothing about the gateway.
    case everybody
}

/// The authentication of a client.
enum AdministrationCaller: Equatable {
    /// The access point requires nothing more, because its socket's mode or a certificate authenticates.
    case admitted
    case token
    case session(PageSession)
    case unidentified
}

/// Authentication.
extension AccessPoint {
    /// Authenticates a client.
    ///
    /// - Parameters:
    ///   - changes: Whether the request changes something.
    ///   - sessions: The sessions of the page at this access point. Nil if it serves none.
    ///   - now: The time in seconds since 1970.
    /// - Returns: the authentication, or the reason of the refusal.
    func authenticate(
        _ shown: PresentedCredentials, for access: EndpointAccess, changes: Bool, sessions: PageSessions?, at now: Int64
    ) -> Result<AdministrationCaller, AdministrationRefusals.Refused> {
        // Probes send whatever name they know the address by, and get nothing that a page could use.
        if level == .health { return .success(.unidentified) }
        // A web page whose own name was resolved to this server's address sends that name.
        guard knows(shown.host) else { return .failure(.host) }
        // Browsers send Origin with every request that changes something. Other clients hardly send it.
        let isOwnPage = sessions != nil && shown.origins == ["\(isSecure ? "https" : "http")://\(shown.host)"]
        guard shown.origins.isEmpty || isOwnPage else { return .failure(.origin) }
        if access == .everybody { return .success(.unidentified) }
        // Resources embedded by another site, or links from it, lead only to the page itself.
        guard shown.fetchSites.allSatisfy({ $0 == "same-origin" || $0 == "none" }) else { return .failure(.origin) }
        if access == .page {
            return isOwnPage && shown.pageKeys.count == 1 ? .success(.unidentified) : .failure(.origin)
        }
        if let sessions, !shown.pageKeys.isEmpty || isOwnPage {
            guard !changes || isOwnPage else { return .failure(.origin) }
            // The page must use its session. With a token or a certificate alone, it could be any page.
            guard shown.authorizations.isEmpty, shown.pageKeys.count == 1, shown.cookies.count == 1,
                let session = sessions.find(
                    cookie: shown.cookies[0], key: shown.pageKeys[0], with: shown.certificate, at: now)
            else { return .failure(.session) }
            return .success(.session(session))
        }
        guard let token else { return .success(.admitted) }
        guard shown.authorizations.count == 1, token.isMeant(by: shown.authorizations[0]) else {
            return .failure(.token)
        }
        return .success(.token)
    }

    /// Returns whether the host is permitted. Browsers omit the default port of the scheme.
    private func knows(_ host: String) -> Bool {
        hosts.contains(host) || servesPage && hosts.contains("\(host):\(isSecure ? 443 : 80)")
    }
}

extension AdministrationRefusals {
    /// A reason with its answer.
    enum Refused: Error, Equatable {
        case host, origin, token, session

        var reason: Reason {
            switch self {
            case .host: .host
            case .origin: .origin
            case .token: .token
            case .session: .session
            }
        }

        var fault: AdministrationFault {
            switch self {
            case .host: .misdirected
            case .origin: .originRefused
            case .token: .tokenRequired
            case .session: .sessionRequired
            }
        }
    }
}

/// The token of a TCP listener: `Authorization: Bearer TOKEN` (RFC 6750 section 2.1).
public struct AdministrationToken: Equatable, Sendable {
    let bytes: [UInt8]

    public static let shortest = 32
    static let longest = 1024

    /// Parses the content of a token file. White space around the token is ignored.
    ///
    /// - Returns: nil unless the token has 32 to 1,024 printable ASCII characters.
    public init?(_ text: [UInt8]) {
        func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 || byte == 0x0A || byte == 0x0D }
        let token = text.drop(while: isBlank).reversed().drop(while: isBlank).reversed()
        guard (Self.shortest...Self.longest).contains(token.count), token.allSatisfy({ (0x21...0x7E).contains($0) })
        else { return nil }
        bytes = Array(token)
    }

    /// Compares the value of an Authorization field with the token, in constant time.
    func isMeant(by credentials: String) -> Bool {
        let parts = credentials.split(separator: " ", maxSplits: 1, omittingEmptySubsequences: false)
        // The scheme is case-insensitive (RFC 9110 section 11.1).
        guard parts.count == 2, parts[0].lowercased() == "bearer" else { return false }
        return isEqual(to: String(parts[1]))
    }

    /// Compares a text with the token in constant time.
    func isEqual(to text: String) -> Bool {
        let shown = Array(text.utf8)
        return ConstantTime.areEqual(shown.span, bytes.span)
    }
}

/// Refusals before a request was handled, counted by reason and logged at a limited rate. Belongs to the server's loop.
public final class AdministrationRefusals {
    /// The reason of a refusal. The raw value is the metric's label.
    public enum Reason: String, CaseIterable, Sendable {
        case token
        /// The Host field is not permitted, as from a web page with another name.
        case host
        /// The Origin field is not the administration's own. Only web pages send it.
        case origin
        /// The page's session has expired or is for another listener.
        case session
        /// The client is authenticated, but the listener does not permit the endpoint.
        case level
        /// The TLS handshake failed: no certificate, a refused one, or no TLS.
        case handshake
        /// The limit of connections was reached.
        case connections

        var sentence: StaticString {
            switch self {
            case .token: "the token is missing or wrong"
            case .host: "the Host field is not a name of the listener"
            case .origin: "the request has an Origin field, so it comes from a web page"
            case .session: "the page's session has ended, or belongs to another listener"
            case .level: "the listener's level does not allow the request"
            case .handshake: "the TLS handshake failed"
            case .connections: "the limit of connections is reached"
            }
        }
    }

    private var counts: [Reason: UInt64] = [:]
    private let notice: (String) -> Void
    private let linesPerMinute: Int
    private var minute: Int64?
    private var lines = 0
    private var suppressed = 0

    /// Creates counts.
    ///
    /// - Parameter notice: Receives the client and the reason.
    init(linesPerMinute: Int = 30, notice: @escaping (String) -> Void) {
        self.linesPerMinute = linesPerMinute
        self.notice = notice
    }

    /// Returns the count since the server began.
    public func count(of reason: Reason) -> UInt64 { counts[reason] ?? 0 }

    /// Counts and logs a refusal.
    ///
    /// - Parameters:
    ///   - client: Its address without the port, or its user.
    ///   - accessPoint: The access point's name.
    func add(_ reason: Reason, _ client: String, at accessPoint: String, _ now: Instant) {
        counts[reason, default: 0] += 1
        let minute = now.nanoseconds / 60_000_000_000
        if minute != self.minute {
            self.minute = minute
            lines = 0
        }
        guard lines < linesPerMinute else {
            suppressed += 1
            return
        }
        lines += 1
        let more = suppressed == 0 ? "" : "; \(suppressed) others since the previous line"
        suppressed = 0
        notice("refused \(client) at \(accessPoint): \(reason.sentence)\(more)")
    }
}
