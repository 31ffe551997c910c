import Cryptography
import Testing

@testable import Administration

@Suite("Admission at an administration listener")
struct DoorAdmissionTests {
    private static let token = String(repeating: "t", count: 32)

    private struct House {
        let accessPoint: AccessPoint
        let sessions: PageSessions?
        let cookie: String
        let key: String

        init(token: String? = DoorAdmissionTests.token, isSecure: Bool = false, servesPage: Bool = true) throws {
            let name = isSecure ? "198.51.100.1:443" : "127.0.0.1:9464"
            let made = token.flatMap { AdministrationToken(Array($0.utf8)) }
            accessPoint = AccessPoint(
                name: name, hosts: [name, "localhost:9464"], token: made, isSecure: isSecure, servesPage: servesPage)
            let sessions = try PageSessions(
                secret: Array("secret".utf8), accessPoint: accessPoint, ended: EndedPageSessions(), try LibraryContext()
            )
            self.sessions = servesPage ? sessions : nil
            let begun = try sessions.begin(at: 0)
            (cookie, key) = (begun.cookie, begun.key)
        }

        /// Returns the credentials that the page sends.
        ///
        /// - Parameter origin: Nil where browsers omit it, as in GET requests to the own origin.
        func page(origin: String? = nil, _ change: (inout PresentedCredentials) -> Void = { _ in })
            -> PresentedCredentials
        {
            var shown = PresentedCredentials()
            shown.host = accessPoint.name
            shown.origins = origin.map { [$0] } ?? []
            shown.fetchSites = ["same-origin"]
            shown.cookies = [cookie]
            shown.pageKeys = [key]
            change(&shown)
            return shown
        }

        func authenticate(_ shown: PresentedCredentials, _ access: EndpointAccess = .operators, changes: Bool = false)
            -> String
        {
            switch accessPoint.authenticate(shown, for: access, changes: changes, sessions: sessions, at: 1) {
            case .success(.admitted): "admitted"
            case .success(.token): "token"
            case .success(.session): "session"
            case .success(.unidentified): "stranger"
            case .failure(let refused): "refused: \(refused)"
            }
        }
    }

    private static let own = "http://127.0.0.1:9464"

    @Test("the page is recognized by cookie, key and origin")
    func page() throws {
        let house = try House()
        #expect(house.authenticate(house.page()) == "session")
        #expect(house.authenticate(house.page(origin: Self.own), changes: true) == "session")
    }

    @Test(
        "a page of another origin is refused, even with valid cookie and key",
        arguments: [
            "http://127.0.0.1:9465", "http://127.0.0.1", "https://127.0.0.1:9464", "http://localhost:9464", "null", "",
            "http://127.0.0.1:9464/", "HTTP://127.0.0.1:9464", "http://127.0.0.1:9464.evil.example",
            "http://evil.example",
        ])
    func foreignOrigin(_ origin: String) throws {
        let house = try House()
        for access in [EndpointAccess.operators, .page, .everybody] {
            #expect(house.authenticate(house.page(origin: origin), access, changes: true) == "refused: origin")
            #expect(house.authenticate(house.page(origin: origin), access) == "refused: origin")
        }
        var withToken = PresentedCredentials()
        withToken.host = house.accessPoint.name
        withToken.origins = [origin]
        withToken.authorizations = ["Bearer \(Self.token)"]
        #expect(house.authenticate(withToken) == "refused: origin")
    }

    @Test("two origins are refused, even if both are the listener's own")
    func twoOrigins() throws {
        let house = try House()
        #expect(
            house.authenticate(house.page { $0.origins = [Self.own, Self.own] }, changes: true) == "refused: origin")
    }

    @Test(
        "a request that the browser marks as from another site is refused", arguments: ["cross-site", "same-site", ""])
    func fetchSite(_ site: String) throws {
        let house = try House()
        #expect(house.authenticate(house.page { $0.fetchSites = [site] }) == "refused: origin")
        #expect(house.authenticate(house.page { $0.fetchSites = ["same-origin", site] }) == "refused: origin")
        // A browser presents a certificate to any site that embeds a resource from here, too.
        let certified = try House(token: nil)
        var embedded = PresentedCredentials()
        embedded.host = certified.accessPoint.name
        #expect(certified.authenticate(embedded) == "admitted")
        embedded.fetchSites = [site]
        #expect(certified.authenticate(embedded) == "refused: origin")
        // A link from another page leads to the page, which shows nothing by itself.
        #expect(certified.authenticate(embedded, .everybody) == "stranger")
    }

    @Test("a change without Origin is refused: browsers send it, and only browsers have sessions")
    func changeWithoutOrigin() throws {
        let house = try House()
        #expect(house.authenticate(house.page(), changes: true) == "refused: origin")
    }

    @Test("a page without its key or cookie, or with two of either, is refused")
    func incomplete() throws {
        let house = try House()
        for change: (inout PresentedCredentials) -> Void in [
            { $0.cookies = [] }, { $0.pageKeys = ["none"] }, { $0.cookies = ["x"] }, { $0.cookies += $0.cookies },
            { $0.pageKeys += $0.pageKeys }, { $0.authorizations = ["Bearer \(Self.token)"] },
        ] {
            #expect(house.authenticate(house.page(change)) == "refused: session")
            #expect(house.authenticate(house.page(origin: Self.own, change), changes: true) == "refused: session")
        }
        // Forms cannot send this field.
        #expect(house.authenticate(house.page { $0.pageKeys = [] }) == "refused: token")
        #expect(
            house.authenticate(house.page(origin: Self.own) { $0.pageKeys = [] }, changes: true) == "refused: session")
    }

    @Test("a certificate alone admits no web page, not even the listener's own")
    func certificate() throws {
        let house = try House(token: nil)
        var shown = PresentedCredentials()
        shown.host = house.accessPoint.name
        #expect(house.authenticate(shown, changes: true) == "admitted")
        shown.origins = [Self.own]
        #expect(house.authenticate(shown, changes: true) == "refused: session")
        shown.origins = ["https://evil.example"]
        #expect(house.authenticate(shown, changes: true) == "refused: origin")
    }

    @Test("a session that another certificate began is refused")
    func otherCertificate() throws {
        let house = try House(token: nil)
        #expect(house.authenticate(house.page()) == "session")
        #expect(house.authenticate(house.page { $0.certificate = [1] }) == "refused: session")
    }

    @Test("only the listener's own page can sign in")
    func signIn() throws {
        let house = try House()
        #expect(house.authenticate(house.page(origin: Self.own), .page, changes: true) == "stranger")
        #expect(house.authenticate(house.page(), .page, changes: true) == "refused: origin")
        #expect(
            house.authenticate(house.page(origin: Self.own) { $0.pageKeys = [] }, .page, changes: true)
                == "refused: origin")
        #expect(
            house.authenticate(house.page(origin: Self.own) { $0.fetchSites = ["same-site"] }, .page, changes: true)
                == "refused: origin")
    }

    @Test(
        "a request for any other host name is refused, whatever else it carries",
        arguments: ["evil.example", "evil.example:9464", "localhost", "127.0.0.1", "127.0.0.1:9465", ""])
    func host(_ host: String) throws {
        let house = try House()
        for access in [EndpointAccess.operators, .page, .everybody] {
            #expect(
                house.authenticate(house.page(origin: "http://\(host)") { $0.host = host }, access) == "refused: host")
        }
    }

    @Test("the scheme's default port is left out of the origin, as browsers do")
    func defaultPort() throws {
        let house = try House(isSecure: true)
        let shown = house.page(origin: "https://198.51.100.1") { $0.host = "198.51.100.1" }
        #expect(house.authenticate(shown, changes: true) == "session")
        #expect(house.authenticate(house.page(origin: "http://198.51.100.1:443"), changes: true) == "refused: origin")
    }

    @Test("a listener without a page accepts no origin and no session")
    func socket() throws {
        let house = try House(token: nil, servesPage: false)
        #expect(house.authenticate(house.page(origin: Self.own), changes: true) == "refused: origin")
        #expect(house.authenticate(house.page { $0.fetchSites = [] }) == "admitted")
    }
}
