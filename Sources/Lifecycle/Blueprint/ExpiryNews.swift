internal import Cryptography
internal import TLS
internal import Upstream

/// What has been reported about expiries. A value without I/O.
struct ExpiryNews {
    struct Item: Hashable {
        /// The name in messages: "listener 127.0.0.1:8443: the revocation list of CN=GMS CA".
        let name: String
        /// In seconds since 1970.
        let end: Int64
        /// How many seconds before the end it is reported.
        let lead: Int64
        /// What the end means, if the message says so: "all clients of this authority are refused".
        var consequence: String?
    }

    private enum Stage: Int {
        case ending
        case ended
    }

    private var said: [Item: Stage] = [:]

    /// Returns what has not been reported yet.
    ///
    /// - Parameter items: All current items. An omitted item is forgotten and would be reported again.
    mutating func of(_ items: [Item], at now: Int64) -> [String] {
        var stages: [Item: Stage] = [:]
        var news: [String] = []
        for item in items where stages[item] == nil && item.end - item.lead <= now {
            let stage: Stage = item.end <= now ? .ended : .ending
            stages[item] = stage
            guard said[item] != stage else { continue }
            let fact =
                stage == .ended ? "\(item.name) has ended" : "\(item.name) ends in \(Self.text(of: item.end - now))"
            let consequence = stage == .ended ? item.consequence : nil
            news.append(fact + (consequence.map { ": \($0)" } ?? ""))
        }
        said = stages
        return news
    }

    /// Returns the time in the largest unit of which there are at least two.
    private static func text(of seconds: Int64) -> String {
        for (unit, name) in [(86_400, "days"), (3_600, "hours"), (60, "minutes")] as [(Int64, String)]
        where seconds >= 2 * unit {
            return "\(seconds / unit) \(name)"
        }
        return "\(seconds) s"
    }

    /// Returns everything that expires and has to be renewed in time.
    static func items(of blueprint: Blueprint) -> [Item] {
        let certificates = blueprint.certificates.map { certificate in
            Item(
                name: "\(certificate.place): the certificate of \(certificate.subject)",
                end: certificate.notAfter, lead: certificateLead)
        }
        let lists = blueprint.listeners.flatMap(\.allClients).flatMap { _, clients in
            clients.revocationLists.map { list in
                // Lists are renewed well before their end: a quarter of their life is late.
                Item(
                    name: "\(clients.place): the revocation list of \(list.issuer)", end: list.nextUpdate,
                    lead: max(0, list.nextUpdate - list.thisUpdate) / 4,
                    consequence: clients.requiresFreshLists
                        ? "all clients of this authority are refused until a fresh list is loaded" : nil)
            }
        }
        return certificates + lists + blueprint.staples.map(item)
    }

    /// Responses are renewed when half of their life is over: half of the rest is late.
    private static func item(of staple: (listener: String, host: String?, response: StapledResponse))
        -> Item
    {
        let place = "listener \(staple.listener)" + (staple.host.map { ", host \($0)" } ?? "")
        return Item(
            name: "\(place): the stapled OCSP response for \(staple.response.subject)",
            end: staple.response.nextUpdate,
            lead: max(0, staple.response.nextUpdate - staple.response.thisUpdate) / 4)
    }

    /// Two weeks.
    private static let certificateLead: Int64 = 14 * 86_400
}

/// The expiry of a certificate of the configuration.
struct CertificateExpiry: Equatable, Sendable {
    enum Role: String, Sendable {
        /// The gateway's certificate, or one above it.
        case server
        /// An authority for certificates of clients, or of an upstream's servers.
        case authority
        /// The gateway's certificate for an upstream's servers, or one above it.
        case client
        /// The authority that issues certificates of phones.
        case issuer
        /// A root of attestations of software phones.
        case attestation
    }

    /// The listener; nil for a certificate of an upstream.
    let listener: String?
    let upstream: String?
    /// The first name of the host of the listener; nil for the listener itself.
    let host: String?
    let role: Role
    /// In RFC 2253 form.
    let subject: String
    /// In seconds since 1970; 0 if unreadable.
    let notAfter: Int64

    init(_ certificate: Certificate, role: Role, listener: String, host: String? = nil) {
        self.listener = listener
        upstream = nil
        self.host = host
        self.role = role
        subject = certificate.subject
        notAfter = certificate.notAfter ?? 0
    }

    init(_ certificate: Certificate, role: Role, upstream: String) {
        listener = nil
        self.upstream = upstream
        host = nil
        self.role = role
        subject = certificate.subject
        notAfter = certificate.notAfter ?? 0
    }

    /// Returns the expiry of client certificates for upstreams and of the upstreams' authorities.
    static func all(
        of upstreams: [UpstreamSettings], _ library: LibraryContext
    ) throws(StartupError) -> [CertificateExpiry] {
        var certificates: [CertificateExpiry] = []
        for upstream in upstreams {
            guard let tls = upstream.tls else { continue }
            var own: [Certificate] = []
            if let identity = tls.identity {
                do throws(CryptographyError) {
                    own = try Certificate.all(inPEM: identity.certificates, library)
                } catch {
                    throw StartupError("upstream \(upstream.name): \(error)")
                }
            }
            certificates +=
                own.map { CertificateExpiry($0, role: .client, upstream: upstream.name) }
                + tls.authorities.certificates.map { CertificateExpiry($0, role: .authority, upstream: upstream.name) }
        }
        return certificates
    }

    /// The place in messages.
    var place: String {
        if let upstream { return "upstream \(upstream)" }
        return "listener \(listener ?? "")" + (host.map { ", host \($0)" } ?? "")
    }

    /// Returns whether both certificates have the same place, so that a message must distinguish them.
    func isOfSamePlace(as other: CertificateExpiry) -> Bool {
        listener == other.listener && upstream == other.upstream && host == other.host && role == other.role
    }
}
