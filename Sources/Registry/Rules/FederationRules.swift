internal import Vocabulary

/// The rules of the federation's tokens and services. Times are in seconds since 1970-01-01T00:00:00Z.
enum FederationRules {
    typealias Rule = StoreRule<RegistryReply>

    // MARK: - Tokens

    /// Issues a token to an instance, and spends the assertion.
    static func grant(_ request: TokenGrant, at time: Int64) -> Rule {
        var look = StoreLook(.binding(request.key))
        look.token = request.assertion
        look.bindingKeys = [request.key]
        look.federationTokens = request.parent.map { [$0] } ?? []
        look.tokensOfDevice = time
        if request.kind != .app { look.service = request.audience.map { .url($0) } }
        return Rule(look: look) { facts in
            func refused(_ refusal: TokenRefusal) -> StoreDecision<RegistryReply> {
                StoreDecision(reply: .token(.refused(refusal)))
            }
            switch facts.condition(of: request.assertion, .token, at: time) {
            case .expired: return refused(.assertionExpired)
            case .used: return refused(.assertionUsed)
            case .unused: break
            }
            guard let details = facts.device, details.device.state == .active,
                details.device.identity.hardwareKey == request.instance, facts.bindings[request.key]?.isActive == true
            else { return refused(.instanceUnknown) }
            if let refusal = refusal(of: request, details) { return refused(refusal) }
            guard facts.liveTokens < FederationToken.limitPerDevice else { return refused(.tooManyTokens) }
            let hardwareKey = details.device.identity.hardwareKey
            var (parent, allowed, end) = (FederationToken?.none, request.instanceScope, Int64.max)
            if request.kind != .instance {
                let found = request.parent.map { facts.federationTokens[$0] } ?? facts.newestInstance
                guard let token = found?.token, token.device == hardwareKey, token.isLive(at: time),
                    token.kind == (request.kind == .app ? .service : .instance)
                else { return refused(.parentInvalid) }
                (parent, allowed, end) = (token, words(token.scope), token.expiresAt)
            }
            let scope = request.scope ?? allowed
            guard Set(scope).isSubset(of: allowed) else { return refused(.scopeExceeded) }
            if request.kind == .service || request.kind == .code {
                guard facts.service?.isActive == true else { return refused(.serviceUnknown) }
            }
            guard let audience = request.kind == .app ? parent?.audience : request.audience else {
                return refused(.serviceUnknown)
            }
            let token = FederationToken(
                id: request.token, kind: request.kind, parent: parent?.id, device: hardwareKey, audience: audience,
                party: request.party, scope: scope.joined(separator: " "), thumbprint: request.thumbprint,
                issuedAt: time, expiresAt: min(time + request.life, end))
            return StoreDecision(
                [.use(request.assertion, .token), .federation(.insert(token))], reply: .token(.issued(token)))
        }
    }

    private static func refusal(of request: TokenGrant, _ details: DeviceDetails) -> TokenRefusal? {
        if request.needsPerson, details.device.subject == nil { return .personMissing }
        if let minimum = request.minimumVersions[details.device.identity.app] {
            guard let version = request.version, version >= minimum else { return .versionExcluded }
            // What the app has proven lately counts more than what it states.
            if let shown = details.attestation?.app.version, shown < minimum { return .versionExcluded }
        }
        return nil
    }

    private static func words(_ scope: String) -> [String] { scope.split(separator: " ").map(String.init) }

    /// Exchanges a code. One that is used again was stolen, so the token that it gave is revoked (RFC 6749 section
    /// 4.1.2).
    static func exchange(_ request: CodeExchange, at time: Int64) -> Rule {
        var look = StoreLook()
        look.federationTokens = [request.code]
        look.service = .url(request.audience)
        return Rule(look: look) { facts in
            func refused(_ writes: [StoreWrite] = []) -> StoreDecision<RegistryReply> {
                StoreDecision(writes, reply: .token(.refused(.codeInvalid)))
            }
            guard let found = facts.federationTokens[request.code], found.token.kind == .code,
                found.token.audience == request.audience, facts.service?.isActive == true
            else { return refused() }
            guard found.token.revokedAt == nil else {
                return refused([.federation(.revoke(request.code, at: time))])
            }
            guard found.isLive(at: time), let parent = facts.parents[request.code] else { return refused() }
            let token = FederationToken(
                id: request.token, kind: .service, parent: request.code, device: found.token.device,
                audience: request.audience, party: found.token.party, scope: found.token.scope,
                thumbprint: found.token.thumbprint, issuedAt: time,
                expiresAt: min(time + request.life, parent.expiresAt))
            let writes: [StoreWrite] = [.federation(.retire(request.code, at: time)), .federation(.insert(token))]
            return StoreDecision(writes, reply: .token(.issued(token)))
        }
    }

    /// Revokes a token with all that were derived from it.
    static func revoke(_ token: Fingerprint, by revoker: TokenRevoker, at time: Int64) -> Rule {
        var look = StoreLook()
        look.federationTokens = [token]
        return Rule(look: look) { facts in
            guard let found = facts.federationTokens[token]?.token else {
                return StoreDecision(reply: .tokenRevocation(.unknown))
            }
            let isOwn =
                switch revoker {
                case .instance(let device): found.device == device
                // The audience of an instance's token is the federation itself.
                case .service(let url): found.audience == url && found.kind != .instance
                case .holder(let id): found.id == id
                }
            guard isOwn else { return StoreDecision(reply: .tokenRevocation(.foreign)) }
            return StoreDecision([.federation(.revoke(token, at: time))], reply: .tokenRevocation(.revoked))
        }
    }

    // MARK: - Services

    /// Adds a service, or replaces what is known of it. It stays approved if only its name or its token changes.
    static func join(_ service: FederationService) -> Rule {
        var look = StoreLook()
        look.service = .id(service.id)
        look.serviceURL = service.url
        return Rule(look: look) { facts in
            if let owner = facts.serviceWithURL, owner != service.id {
                return StoreDecision(reply: .service(.urlTaken))
            }
            if let known = facts.service, known.operatorName != service.operatorName {
                return StoreDecision(reply: .service(.idTaken))
            }
            guard facts.service != nil || facts.services < FederationService.limit else {
                return StoreDecision(reply: .service(.tooMany))
            }
            var service = service
            if let known = facts.service, known.hasSamePlaces(as: service) {
                (service.approvedAt, service.revokedAt) = (known.approvedAt, known.revokedAt)
            }
            return StoreDecision([.federation(.keep(service))], reply: .service(.service(service)))
        }
    }

    static func approve(_ id: String, at time: Int64) -> Rule {
        changing(id) { service in
            service.revokedAt = nil
            if service.approvedAt == nil { service.approvedAt = time }
        }
    }

    /// Removes a service. Its own token and those for it are refused from then on.
    static func remove(_ id: String, at time: Int64) -> Rule {
        changing(id) { service in
            if service.revokedAt == nil { service.revokedAt = time }
            service.approvedAt = nil
        }
    }

    private static func changing(_ id: String, _ change: @escaping (inout FederationService) -> Void) -> Rule {
        var look = StoreLook()
        look.service = .id(id)
        return Rule(look: look) { facts in
            guard var service = facts.service else { return StoreDecision(reply: .service(.unknown)) }
            change(&service)
            return StoreDecision([.federation(.keep(service))], reply: .service(.service(service)))
        }
    }
}
