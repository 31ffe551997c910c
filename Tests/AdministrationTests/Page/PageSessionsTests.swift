import Cryptography
import Testing

@testable import Administration

@Suite("Sessions of the administration page")
struct PageSessionsTests {
    private static let token = [UInt8](repeating: 0x61, count: 32)

    private static func accessPoint(_ name: String = "127.0.0.1:9464", isSecure: Bool = false) -> AccessPoint {
        AccessPoint(name: name, hosts: [name], token: nil, isSecure: isSecure, servesPage: true)
    }

    private static func sessions(
        _ secret: [UInt8] = token, at accessPoint: AccessPoint = accessPoint(),
        ended: EndedPageSessions = EndedPageSessions()
    ) throws -> PageSessions {
        try PageSessions(secret: secret, accessPoint: accessPoint, ended: ended, try LibraryContext())
    }

    @Test("a session is recognized by cookie and key together until it ends")
    func known() throws {
        let sessions = try Self.sessions()
        let begun = try sessions.begin(at: 1_000)
        #expect(begun.session.end == 1_000 + PageSessions.life)
        for now in [1_000, begun.session.end - 1] {
            #expect(sessions.find(cookie: begun.cookie, key: begun.key, at: now) == begun.session)
        }
        #expect(sessions.find(cookie: begun.cookie, key: begun.key, at: begun.session.end) == nil)
    }

    @Test("a session survives a restart of the gateway, which stores nothing of it")
    func restart() throws {
        let begun = try Self.sessions().begin(at: 1_000)
        #expect(try Self.sessions().find(cookie: begun.cookie, key: begun.key, at: 1_001) == begun.session)
    }

    @Test("a session ends when the token changes, and is not valid at another listener")
    func elsewhere() throws {
        let begun = try Self.sessions().begin(at: 1_000)
        let other = try Self.sessions([UInt8](repeating: 0x62, count: 32))
        #expect(other.find(cookie: begun.cookie, key: begun.key, at: 1_001) == nil)
        let beside = try Self.sessions(at: Self.accessPoint("127.0.0.1:9465"))
        #expect(beside.find(cookie: begun.cookie, key: begun.key, at: 1_001) == nil)
    }

    @Test("a session is valid only with the client certificate that began it")
    func certificates() throws {
        let sessions = try Self.sessions()
        let (own, other) = ([UInt8](repeating: 1, count: 32), [UInt8](repeating: 2, count: 32))
        let begun = try sessions.begin(with: own, at: 1_000)
        #expect(sessions.find(cookie: begun.cookie, key: begun.key, with: own, at: 1_001) == begun.session)
        #expect(sessions.find(cookie: begun.cookie, key: begun.key, with: other, at: 1_001) == nil)
        #expect(sessions.find(cookie: begun.cookie, key: begun.key, at: 1_001) == nil)
        let without = try sessions.begin(at: 1_000)
        #expect(sessions.find(cookie: without.cookie, key: without.key, with: own, at: 1_001) == nil)
    }

    @Test("cookie or key alone is not enough: the host's other ports see the cookie")
    func halves() throws {
        let sessions = try Self.sessions()
        let (begun, other) = (try sessions.begin(at: 1_000), try sessions.begin(at: 1_000))
        for key in ["", "sign-in", other.key, String(begun.cookie.split(separator: ".")[2])] {
            #expect(sessions.find(cookie: begun.cookie, key: key, at: 1_001) == nil)
        }
        for cookie in ["", "..", other.cookie, begun.key] {
            #expect(sessions.find(cookie: cookie, key: begun.key, at: 1_001) == nil)
        }
    }

    @Test("a session with another end, id or spelling is refused")
    func altered() throws {
        let sessions = try Self.sessions()
        let begun = try sessions.begin(at: 1_000)
        let parts = begun.cookie.split(separator: ".").map(String.init)
        for cookie in [
            "\(begun.session.end + 1).\(parts[1]).\(parts[2])", "+\(begun.cookie)", "0\(begun.cookie)",
            "\(begun.cookie).",
            "\(begun.cookie) ", "\(parts[0]).\(parts[1].uppercased()).\(parts[2])", "\(parts[0]).\(parts[1])",
            "\(parts[0]).\(parts[1]).\(parts[2].dropLast())",
        ] where cookie != begun.cookie {
            #expect(sessions.find(cookie: cookie, key: begun.key, at: 1_001) == nil, "\(cookie)")
        }
    }

    @Test("an ended session is refused, and the others stay valid")
    func ended() throws {
        let ended = EndedPageSessions()
        let sessions = try Self.sessions(ended: ended)
        let (first, second) = (try sessions.begin(at: 1_000), try sessions.begin(at: 1_000))
        sessions.end(first.session, at: 1_001)
        #expect(sessions.find(cookie: first.cookie, key: first.key, at: 1_002) == nil)
        #expect(sessions.find(cookie: second.cookie, key: second.key, at: 1_002) != nil)
        // A reload that changes the listener creates its sessions again.
        #expect(try Self.sessions(ended: ended).find(cookie: first.cookie, key: first.key, at: 1_002) == nil)
    }

    @Test("the memory of ended sessions is bounded: those closest to expiry are dropped first")
    func bounded() {
        let ended = EndedPageSessions()
        for number in 0..<1_100 { ended.add(PageSession(id: "\(number)", end: 10_000 + Int64(number)), at: 0) }
        #expect(!ended.contains(PageSession(id: "0", end: 10_000)))
        #expect(ended.contains(PageSession(id: "1099", end: 11_099)))
        ended.add(PageSession(id: "new", end: 99_999), at: 11_090)
        #expect(!ended.contains(PageSession(id: "1089", end: 11_089)) && ended.contains(PageSession(id: "new", end: 0)))
    }

    @Test(
        "the cookie is hidden from scripts and other sites, and over TLS never sent in clear"
    )
    func fields() throws {
        let plain = try Self.sessions().cookieField("value")
        #expect(plain == "attestgate-9464=value; Path=/; HttpOnly; SameSite=Strict")
        let secure = try Self.sessions(at: Self.accessPoint("198.51.100.1:443", isSecure: true)).cookieField("value")
        #expect(secure == "__Host-attestgate-443=value; Path=/; HttpOnly; SameSite=Strict; Secure")
        #expect(try Self.sessions().cookieField(nil).hasSuffix("; Max-Age=0"))
    }
}
