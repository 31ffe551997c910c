internal import Cryptography
internal import EventLoop
internal import HTTP

/// The page at each door that serves it: its files, signing in and out.
final class PageDoors {
    private let library: LibraryContext
    private let ended = EndedPageSessions()
    /// In place of a token where certificates say who comes: sessions end with the process there, and the page begins another by
    /// itself.
    private let secret: [UInt8]
    private let audit: (AdministrationAct) -> Void

    init(audit: @escaping (AdministrationAct) -> Void) throws(CryptographyError) {
        library = try LibraryContext()
        secret = try library.randomBytes(32)
        self.audit = audit
    }

    /// - Returns: nil where no page is served.
    func sessions(at door: AdministrationDoor) throws(CryptographyError) -> PageSessions? {
        guard door.servesPage else { return nil }
        return try PageSessions(secret: door.token?.bytes ?? secret, door: door, ended: ended, library)
    }

    func endpoints(at door: AdministrationDoor, _ sessions: PageSessions?) -> [AdministrationEndpoint] {
        guard let sessions else { return [] }
        let files = PageAsset.all.map { file in
            AdministrationEndpoint(.get, file.path, access: .everybody) { _, reply throws(AdministrationFault) in
                reply.send(AdministrationResponse(200, contentType: file.contentType, file.bytes))
            }
        }
        return files + [about(door), signIn(door, sessions), signOut(sessions)]
    }

    /// `GET /session`: what somebody needs to sign in, and nothing of who is.
    private func about(_ door: AdministrationDoor) -> AdministrationEndpoint {
        AdministrationEndpoint(.get, "/session", access: .everybody) { _, reply throws(AdministrationFault) in
            reply.send(AdministrationResponse(json: ["token_needed": door.token != nil]))
        }
    }

    /// `POST /session`: the token in the content, never in the target, which is kept by histories and logs.
    private func signIn(_ door: AdministrationDoor, _ sessions: PageSessions) -> AdministrationEndpoint {
        AdministrationEndpoint(.post, "/session", takesContent: true, access: .page, level: .view) {
            [audit] request, reply throws(AdministrationFault) in
            let members = try JSONText.members(of: request.content, admitted: ["token"])
            if let token = door.token {
                guard let shown = members["token"], token.isEqual(to: shown) else { throw .tokenRequired }
            }
            do throws(CryptographyError) {
                let begun = try sessions.begin(with: request.certificate, at: WallClock.seconds)
                audit(AdministrationAct("sign_in", "sign in, session \(begun.session.name)", by: request.peer))
                reply.send(
                    AdministrationResponse(
                        json: [
                            "key": begun.key, "until": Timestamp.text(of: begun.session.end),
                            "level": door.level.rawValue,
                        ]
                    ).setting(cookie: sessions.cookieField(begun.cookie)))
            } catch {
                throw AdministrationFault(503, "busy", "A session cannot be started: \(error).")
            }
        }
    }

    /// `POST /session/end`.
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

/// What the page is made of: files of the folder beside this one, compiled into the program.
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
