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
