internal import Cryptography
internal import HTTP
internal import Vocabulary

/// A stay of an operator on the page, from signing in to its end.
struct PageSession: Equatable {
    /// 32 hexadecimal digits.
    let id: String
    /// In seconds since 1970.
    let end: Int64

    /// For the log: enough to tell sessions apart.
    var name: String { String(id.prefix(8)) }
}

/// The sessions of the page at one door: made when somebody has shown what the door demands, recognised by two things together.
///
/// One is a cookie, which no script can read. Cookies know no ports, though: whatever else the browser visits on the same host gets
/// it. So the other is a key that the page keeps for itself, and that origins keep apart. Either alone opens nothing, and no other
/// page can send the key: it stands in a field of the request.
///
/// With a certificate a session is good for that certificate alone: what one operator's browser gives away opens nothing to another
/// operator's, in whose name the audit log would not have it either.
///
/// Both are made with a key that comes of the door's token, so they outlive a restart of the gateway, and end with the token. Nothing
/// is remembered but sessions that were ended before their time.
final class PageSessions {
    /// How long a session lasts, in seconds: a working day's shift.
    static let life: Int64 = 8 * 3600

    let cookieName: String
    private let isSecure: Bool
    private let key: AuthenticationKey
    private let library: LibraryContext
    private let ended: EndedPageSessions

    /// - Parameters:
    ///   - secret: the door's token; something random where certificates do for one.
    ///   - door: the sessions are good for no other.
    init(secret: [UInt8], door: AdministrationDoor, ended: EndedPageSessions, _ library: LibraryContext)
        throws(CryptographyError)
    {
        let purpose = Array("attestgate administration page 1 \(door.name)".utf8)
        let derived = try KeyDerivation.hkdfSHA256(secret: secret.span, info: purpose.span, count: 32, library)
        key = try AuthenticationKey(derived.span, library)
        self.library = library
        self.ended = ended
        isSecure = door.isSecure
        // A browser has one jar for all ports of a host.
        let port = door.name.split(separator: ":").last.map(String.init) ?? ""
        // RFC 6265bis section 4.1.3.2: of this host alone, over TLS alone.
        cookieName = (isSecure ? "__Host-attestgate-" : "attestgate-") + port
    }

    /// Begins one for somebody who has shown what the door demands.
    ///
    /// - Parameters:
    ///   - certificate: the thumbprint of the one that was shown; empty if none was.
    ///   - now: in seconds since 1970.
    /// - Returns: the session, the value of its cookie, and the key for the page.
    func begin(
        with certificate: [UInt8] = [], at now: Int64
    ) throws(CryptographyError) -> (session: PageSession, cookie: String, key: String) {
        let session = PageSession(
            id: Hexadecimal.encode(try library.randomBytes(16)), end: now + Self.life)
        let cookie = "\(session.end).\(session.id).\(try code("cookie", session, certificate))"
        return (session, cookie, try code("page", session, certificate))
    }

    /// - Parameters:
    ///   - cookie: the value as it was sent.
    ///   - key: as the page has sent it.
    ///   - certificate: the thumbprint of the one that is shown; empty if none is.
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

    /// The session opens nothing any more.
    func end(_ session: PageSession, at now: Int64) { ended.add(session, at: now) }

    /// The value of Set-Cookie. - Parameter value: nil to have it forgotten.
    func cookieField(_ value: String?) -> String {
        "\(cookieName)=\(value ?? ""); Path=/; HttpOnly; SameSite=Strict" + (isSecure ? "; Secure" : "")
            + (value == nil ? "; Max-Age=0" : "")
    }

    /// 64 hexadecimal digits.
    private func code(
        _ purpose: String, _ session: PageSession, _ certificate: [UInt8]
    ) throws(CryptographyError) -> String {
        // The id has 32 octets, so what stands behind it is the certificate and nothing else.
        let message = Array("\(purpose) \(session.end) \(session.id)\(Hexadecimal.encode(certificate))".utf8)
        return Hexadecimal.encode(try key.code(of: message.span).bytes)
    }

    private static func areEqual(_ shown: String, _ expected: String) -> Bool {
        let (shown, expected) = (Array(shown.utf8), Array(expected.utf8))
        return ConstantTime.areEqual(shown.span, expected.span)
    }
}

/// Sessions that were ended before their time, of all doors. Bounded: of too many, those are forgotten that would end first.
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

/// What a request shows of who asks, and of which page it comes from: as sent, for a door to judge.
struct PresentedCredentials: Equatable {
    /// The Host field.
    var host = ""
    var origins: [String] = []
    /// Sec-Fetch-Site: whether a browser sends the request for a page of another origin.
    var fetchSites: [String] = []
    /// Authorization.
    var authorizations: [String] = []
    /// Values of cookies by that name, wherever they stand.
    var cookies: [String] = []
    /// The page's half of its session.
    var pageKeys: [String] = []

    /// The thumbprint of the certificate that the connection has shown; empty if it has none.
    var certificate: [UInt8] = []

    /// The field that holds the page's key. Its name is none that a form or a simple request can send.
    static let pageField = "attestgate-page"
    private static let fetchSiteField = "sec-fetch-site"

    init() {}

    /// - Parameters:
    ///   - cookieName: of the session; nil where no page is served.
    ///   - text: reads a part of the head.
    init(_ head: RequestHead, cookieName: String?, text: (ByteRange) -> String) {
        host = text(head.authority)
        for field in head.fields {
            switch field.name {
            case .origin: origins.append(text(field.valueRange))
            case .authorization: authorizations.append(text(field.valueRange))
            case .cookie:
                guard let cookieName else { continue }
                // RFC 6265 section 4.2.1: pairs with a semicolon and a blank between them.
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
