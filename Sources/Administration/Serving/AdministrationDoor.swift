public import Cryptography
public import EventLoop
public import TLS

/// A way in to the administration, and what those must show who come by it.
struct AdministrationDoor: Equatable {
    /// For the log.
    let name: String
    /// What the Host field may be: a web page that has its own name resolved to this address says that name.
    let hosts: [String]
    /// Nil if something else says who may ask: a socket's mode, or client certificates.
    let token: AdministrationToken?
    /// TLS is spoken.
    let isSecure: Bool
    /// Browsers reach no Unix socket.
    let servesPage: Bool
    /// What those may do who come in.
    var level = AdministrationLevel.admin

    static let socket = AdministrationDoor(
        name: "the socket", hosts: ["localhost"], token: nil, isSecure: false, servesPage: false)
}

/// A TCP address on which the administration is served.
public struct AdministrationListener: Equatable, Sendable {
    /// How the listener shows itself, and whose certificates it asks for.
    public struct TLS: Equatable, Sendable {
        let certificates: [UInt8]
        let key: [UInt8]
        let policy: TLSPolicy
        /// Nil to ask for none.
        let authorities: [[UInt8]]?

        /// - Parameters: texts in PEM; each authority's may hold several.
        public init(certificates: [UInt8], key: [UInt8], policy: TLSPolicy, authorities: [[UInt8]]?) {
            self.certificates = certificates
            self.key = key
            self.policy = policy
            self.authorities = authorities
        }
    }

    let address: SocketAddress
    let door: AdministrationDoor
    /// The address as text.
    public var name: String { door.name }
    let tls: TLS?

    /// - Parameters:
    ///   - name: the address as text, which the Host field may be.
    ///   - hosts: what else the Host field may be.
    ///   - token: nil only with TLS that asks for certificates.
    ///   - level: what those may do who show what is asked for.
    public init(
        address: SocketAddress, name: String, hosts: [String], token: AdministrationToken?, tls: TLS?,
        level: AdministrationLevel = .admin
    ) {
        precondition(token != nil || tls?.authorities != nil, "a TCP address is open to every process of the machine")
        self.address = address
        self.tls = tls
        door = AdministrationDoor(
            name: name, hosts: [name] + hosts, token: token, isSecure: tls != nil,
            servesPage: level >= .view, level: level)
    }

    /// - Throws: if certificates or key cannot be used.
    func makeContext(_ library: LibraryContext) throws(CryptographyError) -> ServerContext? {
        guard let tls else { return nil }
        return try ServerContext(
            chain: try ownCertificates(library), key: try PrivateKey(pem: tls.key, library),
            authorities: tls.authorities == nil ? nil : try authorities(library), policy: tls.policy,
            sessions: SessionTable(limit: Self.sessions), library: library)
    }

    /// What it shows itself with, leaf first; none without TLS.
    public func ownCertificates(_ library: LibraryContext) throws(CryptographyError) -> [Certificate] {
        guard let tls else { return [] }
        return try Certificate.all(inPEM: tls.certificates, library)
    }

    /// What operators' certificates must chain to; none if they are asked for none.
    public func authorities(_ library: LibraryContext) throws(CryptographyError) -> [Certificate] {
        var certificates: [Certificate] = []
        for text in tls?.authorities ?? [] { certificates += try Certificate.all(inPEM: text, library) }
        return certificates
    }

    /// Whether who has this listener's token has the other one's, too.
    public func sharesToken(with other: AdministrationListener) -> Bool {
        door.token != nil && door.token == other.door.token
    }

    public var level: AdministrationLevel { door.level }

    /// Finds what is wrong with certificates and key without serving anything.
    public func check(_ library: LibraryContext) throws(CryptographyError) { _ = try makeContext(library) }

    /// Apart from those of the gateway's clients.
    private static let sessions = 64
}

extension AdministrationListener {
    /// The door's name is the address.
    public static func == (left: AdministrationListener, right: AdministrationListener) -> Bool {
        left.door == right.door && left.tls == right.tls
    }
}

/// How much of the administration an endpoint is, and how much of it those get who come by a listener.
public enum AdministrationLevel: String, Comparable, CaseIterable, Sendable {
    /// Metrics and health: what a scraper asks for. Nothing of a device or of a request stands in them.
    case metrics
    /// All that only looks, the page among it; but no export, which is the whole registry.
    case view
    /// Everything.
    case admin

    public static func < (left: Self, right: Self) -> Bool { left.rank < right.rank }

    private var rank: Int {
        switch self {
        case .metrics: 0
        case .view: 1
        case .admin: 2
        }
    }
}

/// Whom an endpoint is for.
enum EndpointAccess: Equatable {
    /// Clients that have presented the credentials which the listener demands.
    case operators
    /// The door's own page, which asks for a session and has none yet.
    case page
    /// Everybody who reaches the door: what the page is made of says nothing of the gateway.
    case everybody
}

/// Who asks, as far as a door has found out.
enum AdministrationCaller: Equatable {
    /// The door needs nothing more: its socket's mode, or a certificate, says who comes.
    case admitted
    case token
    case session(PageSession)
    case unidentified
}

/// Who may come in, and with what.
extension AdministrationDoor {
    /// - Parameters:
    ///   - changes: the request changes something.
    ///   - sessions: of the page at this door; nil if it serves none.
    ///   - now: in seconds since 1970.
    /// - Returns: who asks, or why nothing more of the request is looked at.
    func judge(
        _ shown: PresentedCredentials, for access: EndpointAccess, changes: Bool, sessions: PageSessions?, at now: Int64
    ) -> Result<AdministrationCaller, AdministrationRefusals.Refused> {
        // A web page that has the address of this server resolved to its own name says that name.
        guard knows(shown.host) else { return .failure(.host) }
        // Browsers say where a request comes from whenever it changes something, and hardly anything else does.
        let isOwnPage = sessions != nil && shown.origins == ["\(isSecure ? "https" : "http")://\(shown.host)"]
        guard shown.origins.isEmpty || isOwnPage else { return .failure(.origin) }
        if access == .everybody { return .success(.unidentified) }
        // Nor does what another site's page embeds, or links to, lead anywhere but to the page itself.
        guard shown.fetchSites.allSatisfy({ $0 == "same-origin" || $0 == "none" }) else { return .failure(.origin) }
        if access == .page {
            return isOwnPage && shown.pageKeys.count == 1 ? .success(.unidentified) : .failure(.origin)
        }
        if let sessions, !shown.pageKeys.isEmpty || isOwnPage {
            guard !changes || isOwnPage else { return .failure(.origin) }
            // A page has no other way: with a token, or a certificate alone, it could be any.
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

    /// Browsers leave out the port that is their scheme's own.
    private func knows(_ host: String) -> Bool {
        hosts.contains(host) || servesPage && hosts.contains("\(host):\(isSecure ? 443 : 80)")
    }
}

extension AdministrationRefusals {
    /// A reason with the answer that goes with it.
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

/// What those show who ask by TCP: `Authorization: Bearer TOKEN` (RFC 6750 section 2.1).
public struct AdministrationToken: Equatable, Sendable {
    let bytes: [UInt8]

    public static let shortest = 32
    static let longest = 1024

    /// - Parameter text: of a file; blanks and ends of lines around the token are none of it.
    /// - Returns: nil if what is left is not 32 to 1,024 printable ASCII characters.
    public init?(_ text: [UInt8]) {
        func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 || byte == 0x0A || byte == 0x0D }
        let token = text.drop(while: isBlank).reversed().drop(while: isBlank).reversed()
        guard (Self.shortest...Self.longest).contains(token.count), token.allSatisfy({ (0x21...0x7E).contains($0) })
        else { return nil }
        bytes = Array(token)
    }

    /// - Parameter credentials: the value of an Authorization field. How much of the token is right does not show in the time
    ///   this takes.
    func isMeant(by credentials: String) -> Bool {
        let parts = credentials.split(separator: " ", maxSplits: 1, omittingEmptySubsequences: false)
        // The scheme's case means nothing (RFC 9110 section 11.1).
        guard parts.count == 2, parts[0].lowercased() == "bearer" else { return false }
        return isEqual(to: String(parts[1]))
    }

    /// In constant time, too.
    func isEqual(to text: String) -> Bool {
        let shown = Array(text.utf8)
        return ConstantTime.areEqual(shown.span, bytes.span)
    }
}

/// Clients that the administration refused before it looked at the request: counted by reason and logged at a limited
/// rate. Belongs to the server's loop.
public final class AdministrationRefusals {
    /// What was missing or wrong. The raw value is the metric's label.
    public enum Reason: String, CaseIterable, Sendable {
        case token
        /// A web page says its own name.
        case host
        /// Only web pages say one; and this one is not the administration's own.
        case origin
        /// The page's, for it is over or another listener's.
        case session
        /// Who may come in asks for more than the listener is for.
        case level
        /// The TLS handshake: no certificate, or one that is refused, or no TLS at all.
        case handshake
        /// As many connections as there may be.
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

    /// - Parameter notice: receives which client was refused, and why.
    init(linesPerMinute: Int = 30, notice: @escaping (String) -> Void) {
        self.linesPerMinute = linesPerMinute
        self.notice = notice
    }

    /// How many since the server began.
    public func count(of reason: Reason) -> UInt64 { counts[reason] ?? 0 }

    /// - Parameters:
    ///   - client: its address without the port, or its user.
    ///   - door: where it came.
    func add(_ reason: Reason, _ client: String, at door: String, _ now: Instant) {
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
        notice("refused \(client) at \(door): \(reason.sentence)\(more)")
    }
}
