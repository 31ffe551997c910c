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
