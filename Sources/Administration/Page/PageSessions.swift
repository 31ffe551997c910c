internal import Cryptography
internal import Encoding
internal import HTTP
internal import Vocabulary

/// A session of an operator on the page.
struct PageSession: Equatable {
    /// The id, 32 hexadecimal digits.
    let id: String
    /// The time of expiry in seconds since 1970.
    let end: Int64

    /// A short name for the log.
    var name: String { String(id.prefix(8)) }
}

/// The sessions of the page at one access point. Signing in creates one, and each request needs a cookie and a key.
///
/// No script can read the cookie. However, cookies ignore ports, so the browser sends it to all other services on the
/// same host. Therefore the page also keeps a key, which the browser isolates by origin. Neither is sufficient alone.
/// No other page can send the key, because it is in a request field.
///
/// With a certificate, a session is valid only for that certificate. A stolen session is useless to another operator,
/// and the audit log names the right one.
///
/// Cookie and key are derived from the access point's token. They survive a restart of the gateway and end with the token. Only
/// sessions that ended early are stored.
final class PageSessions {
    /// The lifetime of a session in seconds: a working day.
    static let life: Int64 = 8 * 3600

    let cookieName: String
    private let isSecure: Bool
    private let key: AuthenticationKey
    private let library: LibraryContext
    private let ended: EndedPageSessions

    /// Derives the keys.
    ///
    /// - Parameters:
    ///   - secret: The access point's token, or random bytes where certificates authenticate.
    ///   - accessPoint: The only access point at which the sessions are valid.
    init(secret: [UInt8], accessPoint: AccessPoint, ended: EndedPageSessions, _ library: LibraryContext)
        throws(CryptographyError)
    {
        let purpose = Array("attestgate administration page 1 \(accessPoint.name)".utf8)
        let derived = try KeyDerivation.hkdfSHA256(secret: secret.span, info: purpose.span, count: 32, library)
        key = try AuthenticationKey(derived.span, library)
        self.library = library
        self.ended = ended
        isSecure = accessPoint.isSecure
        // A browser has one cookie store for all ports of a host.
        let port = accessPoint.name.split(separator: ":").last.map(String.init) ?? ""
        // RFC 6265bis section 4.1.3.2: the prefix restricts the cookie to this host and TLS.
        cookieName = (isSecure ? "__Host-attestgate-" : "attestgate-") + port
    }

    /// Begins a session for a client with the credentials of the access point.
    ///
    /// - Parameters:
    ///   - certificate: The thumbprint of the client's certificate. Empty if there is none.
    ///   - now: The time in seconds since 1970.
    /// - Returns: the session, the value of its cookie, and the key for the page.
    func begin(
        with certificate: [UInt8] = [], at now: Int64
    ) throws(CryptographyError) -> (session: PageSession, cookie: String, key: String) {
        let session = PageSession(
            id: Hexadecimal.encode(try library.randomBytes(16)), end: now + Self.life)
        let cookie = "\(session.end).\(session.id).\(try code("cookie", session, certificate))"
        return (session, cookie, try code("page", session, certificate))
    }

    /// Finds the session of a request.
    ///
    /// - Parameters:
    ///   - cookie: The value of the cookie as received.
    ///   - key: The page's key as received.
    ///   - certificate: The thumbprint of the client's certificate. Empty if there is none.
    func find(cookie: String, key: String, with certificate: [UInt8] = [], at now: Int64) -> PageSession? {
        let parts = cookie.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 3, let end = Int64(parts[0]), String(end) == parts[0], parts[1].utf8.count == 32 else {
            return nil
        }
        let session = PageSession(id: parts[1], end: end)
        guard let expected = try? (code("cookie", session, certificate), code("page", session, certificate)),
            Self.areEqual(parts[2], expected.0), Self.areEqual(key, expected.1)
        else { return nil }
        return now < end && !ended.contains(session) ? session : nil
    }

    /// Ends a session.
    func end(_ session: PageSession, at now: Int64) { ended.add(session, at: now) }

    /// Returns the value of Set-Cookie.
    ///
    /// - Parameter value: Nil to delete the cookie.
    func cookieField(_ value: String?) -> String {
        "\(cookieName)=\(value ?? ""); Path=/; HttpOnly; SameSite=Strict" + (isSecure ? "; Secure" : "")
            + (value == nil ? "; Max-Age=0" : "")
    }

    /// Returns 64 hexadecimal digits.
    private func code(
        _ purpose: String, _ session: PageSession, _ certificate: [UInt8]
    ) throws(CryptographyError) -> String {
        // The id has 32 characters, so the rest is the certificate.
        let message = Array("\(purpose) \(session.end) \(session.id)\(Hexadecimal.encode(certificate))".utf8)
        return Hexadecimal.encode(try key.code(of: message.span).bytes)
    }

    private static func areEqual(_ shown: String, _ expected: String) -> Bool {
        let (shown, expected) = (Array(shown.utf8), Array(expected.utf8))
        return ConstantTime.areEqual(shown.span, expected.span)
    }
}

/// The sessions of all access points that ended early. Their number is limited, and those that would expire first are dropped.
final class EndedPageSessions {
    private var ends: [String: Int64] = [:]
    private static let limit = 1_024

    func contains(_ session: PageSession) -> Bool { ends[session.id] != nil }

    func add(_ session: PageSession, at now: Int64) {
        ends = ends.filter { $0.value > now }
        if ends.count >= Self.limit, let first = ends.min(by: { $0.value < $1.value }) {
            ends.removeValue(forKey: first.key)
        }
        ends[session.id] = session.end
    }
}

/// The credentials and origin of a request, as received. An access point checks them.
struct PresentedCredentials: Equatable {
    /// The Host field.
    var host = ""
    var origins: [String] = []
    /// The values of Sec-Fetch-Site: whether a browser sends the request for a page of another origin.
    var fetchSites: [String] = []
    /// The values of Authorization.
    var authorizations: [String] = []
    /// The values of all cookies with the session's name.
    var cookies: [String] = []
    /// The page's keys.
    var pageKeys: [String] = []

    /// The thumbprint of the client's certificate. Empty if there is none.
    var certificate: [UInt8] = []

    /// The field with the page's key. Forms and simple requests cannot send a field with this name.
    private static let pageField = "attestgate-page"
    private static let fetchSiteField = "sec-fetch-site"

    init() {}

    /// Reads the credentials.
    ///
    /// - Parameters:
    ///   - cookieName: The name of the session's cookie. Nil where no page is served.
    ///   - text: Returns a part of the head.
    init(_ head: RequestHead, cookieName: String?, text: (ByteRange) -> String) {
        host = text(head.authority)
        for field in head.fields {
            switch field.name {
            case .origin: origins.append(text(field.valueRange))
            case .authorization: authorizations.append(text(field.valueRange))
            case .cookie:
                guard let cookieName else { continue }
                // RFC 6265 section 4.2.1: a semicolon and a space separate the pairs.
                for pair in text(field.valueRange).split(separator: ";") {
                    let pair = pair.drop { $0 == " " }
                    if pair.hasPrefix("\(cookieName)=") { cookies.append(String(pair.dropFirst(cookieName.count + 1))) }
                }
            case .other:
                switch text(field.nameRange).lowercased() {
                case Self.pageField: pageKeys.append(text(field.valueRange))
                case Self.fetchSiteField: fetchSites.append(text(field.valueRange))
                default: break
                }
            default: break
            }
        }
    }
}
