internal import Cryptography
internal import Encoding
internal import EventLoop
internal import HTTP

/// The endpoints of the page at each access point that serves it: its files, signing in and signing out.
final class PageEndpoints {
    private let library: LibraryContext
    private let ended = EndedPageSessions()
    /// A random secret that replaces the token where certificates authenticate. Sessions then end with the process, and
    /// the page starts new ones by itself.
    private let secret: [UInt8]
    private let audit: (AdministrationAct) -> Void

    init(audit: @escaping (AdministrationAct) -> Void) throws(CryptographyError) {
        library = try LibraryContext()
        secret = try library.randomBytes(32)
        self.audit = audit
    }

    /// Returns the sessions of an access point, or nil if it serves no page.
    func sessions(at accessPoint: AccessPoint) throws(CryptographyError) -> PageSessions? {
        guard accessPoint.servesPage else { return nil }
        return try PageSessions(
            secret: accessPoint.token?.bytes ?? secret, accessPoint: accessPoint, ended: ended, library)
    }

    func endpoints(at accessPoint: AccessPoint, _ sessions: PageSessions?) -> [AdministrationEndpoint] {
        guard let sessions else { return [] }
        let files = PageAsset.all.map { file in
            AdministrationEndpoint(.get, file.path, access: .everybody) { _, reply throws(AdministrationFault) in
                reply.send(AdministrationResponse(200, contentType: file.contentType, file.bytes))
            }
        }
        return files + [about(accessPoint), signIn(accessPoint, sessions), signOut(sessions)]
    }

    /// Returns the endpoint `GET /session`, which tells how to sign in, but nothing about existing sessions.
    private func about(_ accessPoint: AccessPoint) -> AdministrationEndpoint {
        AdministrationEndpoint(.get, "/session", access: .everybody) { _, reply throws(AdministrationFault) in
            reply.send(AdministrationResponse(json: ["token_needed": accessPoint.token != nil]))
        }
    }

    /// Returns the endpoint `POST /session`. The token is in the content, because histories and logs store targets.
    private func signIn(_ accessPoint: AccessPoint, _ sessions: PageSessions) -> AdministrationEndpoint {
        AdministrationEndpoint(.post, "/session", takesContent: true, access: .page, level: .view) {
            [audit] request, reply throws(AdministrationFault) in
            let members = try JSONText.members(of: request.content, admitted: ["token"])
            if let token = accessPoint.token {
                guard let shown = members["token"], token.isEqual(to: shown) else { throw .tokenRequired }
            }
            do throws(CryptographyError) {
                let begun = try sessions.begin(with: request.certificate, at: WallClock.seconds)
                audit(AdministrationAct("sign_in", "sign in, session \(begun.session.name)", by: request.peer))
                reply.send(
                    AdministrationResponse(
                        json: [
                            "key": begun.key, "until": InternetTime.text(of: begun.session.end),
                            "level": accessPoint.level.rawValue,
                        ]
                    ).setting(cookie: sessions.cookieField(begun.cookie)))
            } catch {
                throw AdministrationFault(503, "busy", "A session cannot be started: \(error).")
            }
        }
    }

    /// Returns the endpoint `POST /session/end`.
    private func signOut(_ sessions: PageSessions) -> AdministrationEndpoint {
        AdministrationEndpoint(.post, "/session/end", level: .view) {
            [audit] request, reply throws(AdministrationFault) in
            guard case .session(let session) = request.caller else { throw .badRequest("There is no session.") }
            sessions.end(session, at: WallClock.seconds)
            audit(AdministrationAct("sign_out", "sign out", by: request.peer))
            reply.send(
                AdministrationResponse(json: [String: String]()).setting(cookie: sessions.cookieField(nil)))
        }
    }
}

/// A file of the page, from the folder beside this one. It is compiled into the program.
struct PageAsset {
    let path: String
    let contentType: StaticString
    let bytes: [UInt8]

    static let all =
        [
            PageAsset(path: "/", contentType: "text/html; charset=utf-8", bytes: PackageResources.page_html),
            PageAsset(path: "/page.css", contentType: "text/css; charset=utf-8", bytes: PackageResources.page_css),
            PageAsset(path: "/icon.svg", contentType: "image/svg+xml", bytes: PackageResources.icon_svg),
        ] + scripts

    private static let scripts = [
        ("/page.js", PackageResources.page_js), ("/dom.js", PackageResources.dom_js),
        ("/gateway.js", PackageResources.gateway_js), ("/decisions.js", PackageResources.decisions_js),
        ("/plots.js", PackageResources.plots_js), ("/status.js", PackageResources.status_js),
        ("/devices.js", PackageResources.devices_js),
    ].map { PageAsset(path: $0, contentType: "text/javascript; charset=utf-8", bytes: $1) }
}
