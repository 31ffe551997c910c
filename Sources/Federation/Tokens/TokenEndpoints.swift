internal import Encoding
internal import Registry
internal import Vocabulary

extension FederationHandler {
    private static let assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
    /// RFC 7523 section 2.1, and an older spelling that clients have.
    private static let bearerGrants = [
        "urn:ietf:params:oauth:grant-type:jwt-bearer", "urn:ietf:param:oauth:grant-type:jwt-bearer",
    ]

    // MARK: - Token

    func issue(_ request: FederationRequest, _ reply: FederationReply) throws(FederationFault) {
        let form = try FederationForm(request.content)
        let grant = try form.required("grant_type")
        switch grant {
        case "client_credentials": try register(form, request, reply)
        case "authorization_code": try exchange(form, request, reply)
        case let grant where Self.bearerGrants.contains(grant):
            let assertion = try verify(try form.required("assertion"))
            try derive(assertion.party == nil ? .service : .app, assertion, form, request, reply) { token, granted in
                .token(token, granted)
            }
        default: throw FederationFault(.unsupportedGrantType, "the grant type is not supported")
        }
    }

    /// Registers the instance of an agent (RFC 7523 section 2.2).
    private func register(
        _ form: FederationForm, _ request: FederationRequest, _ reply: FederationReply
    ) throws(FederationFault) {
        guard form["client_assertion_type"] == Self.assertionType, let text = form["client_assertion"] else {
            throw FederationFault(.invalidClient, "the instance must authenticate with a client_assertion")
        }
        let assertion = try rules.assertions.verify(text, else: .invalidClient, now: now)
        guard form["client_id"].map({ $0 == assertion.instance.base64URL }) ?? true else {
            throw FederationFault(.invalidClient, "client_id is not that of the assertion")
        }
        guard assertion.party == nil, assertion.parent == nil else {
            throw FederationFault(.invalidClient, "the assertion of an instance has neither azp nor parent")
        }
        try issue(
            .instance, assertion, audience: rules.settings.url, scope: try rules.scope(form["scope"]),
            thumbprint: assertion.thumbprint, life: rules.settings.lives.instance, request, reply
        ) { token, granted in .token(token, granted) }
    }

    private func verify(_ text: String) throws(FederationFault) -> InstanceAssertion {
        try rules.assertions.verify(text, else: .invalidGrant, now: now)
    }

    /// Derives a token from another one of the instance.
    private func derive(
        _ kind: FederationToken.Kind, _ assertion: InstanceAssertion, _ form: FederationForm,
        _ request: FederationRequest, _ reply: FederationReply,
        _ answer: @escaping (FederationRules.FreshToken, FederationToken) -> FederationResponse
    ) throws(FederationFault) {
        let audience = form["aud"] ?? assertion.resource
        guard assertion.resource.map({ $0 == audience }) ?? true else {
            throw .invalidRequest("aud is another service than the resource of the assertion")
        }
        if kind == .app {
            guard assertion.parent != nil else {
                throw FederationFault(.invalidGrant, "the assertion for an app names no parent")
            }
            // It is for the service of the parent.
            guard audience == nil else { throw .invalidRequest("aud is that of the parent and must be omitted") }
        } else if audience == nil {
            throw .invalidRequest("aud is missing: the URL of the service")
        }
        let lives = rules.settings.lives
        try issue(
            kind, assertion, audience: audience, scope: try rules.scope(form["scope"]),
            thumbprint: assertion.confirmation,
            life: kind == .app ? lives.app : kind == .code ? lives.code : lives.service, request, reply, answer)
    }

    private func issue(
        _ kind: FederationToken.Kind, _ assertion: InstanceAssertion, audience: String?, scope: [String]?,
        thumbprint: String?, life: Int64, _ request: FederationRequest, _ reply: FederationReply,
        _ answer: @escaping (FederationRules.FreshToken, FederationToken) -> FederationResponse
    ) throws(FederationFault) {
        let subject = FederationSubject(device: rules.label(of: assertion.instance))
        let isClient = kind == .instance
        try prove(request, by: .key(assertion.key), reply) { [self] () throws(FederationFault) in
            let token = try rules.freshToken()
            let grant = TokenGrant(
                token: token.id, kind: kind, key: assertion.key, instance: assertion.instance,
                parent: assertion.parent, audience: audience, party: assertion.party, scope: scope,
                instanceScope: rules.settings.scopes, thumbprint: thumbprint, assertion: assertion.singleUse,
                life: life, needsPerson: rules.settings.needsPerson,
                minimumVersions: rules.settings.minimumVersions, version: assertion.version)
            perform(.grantToken(grant), request, subject, reply) { [self] found throws(FederationFault) in
                guard case .token(let verdict) = found else { throw .storeUnavailable }
                switch verdict {
                case .refused(let refusal): throw FederationFault(refusal, isClient: isClient)
                case .issued(let granted):
                    shared.count { $0.issued(kind) }
                    self.granted(request, subject, kind.rawValue)
                    reply.send(answer(token, granted))
                }
            }
        }
    }

    /// Exchanges a code for a token, by its service.
    private func exchange(
        _ form: FederationForm, _ request: FederationRequest, _ reply: FederationReply
    ) throws(FederationFault) {
        let code = try form.required("code")
        try authenticateService(request, form, reply) { [self] service throws(FederationFault) in
            guard let code = try rules.id(ofToken: code) else {
                throw FederationFault(.codeInvalid, isClient: false)
            }
            let token = try rules.freshToken()
            let exchange = CodeExchange(
                code: code, token: token.id, audience: service.url, life: rules.settings.lives.service)
            let subject = FederationSubject(service: service.id)
            perform(.exchangeCode(exchange), request, subject, reply) { [self] answer throws(FederationFault) in
                guard case .token(let verdict) = answer else { throw .storeUnavailable }
                switch verdict {
                case .refused(let refusal): throw FederationFault(refusal, isClient: false)
                case .issued(let granted):
                    shared.count { $0.issued(.service) }
                    self.granted(request, subject, "exchanged")
                    reply.send(.token(token, granted))
                }
            }
        }
    }

    // MARK: - Authorize

    /// Makes a code for a service, which the agent passes on.
    func authorize(_ request: FederationRequest, _ reply: FederationReply) throws(FederationFault) {
        let form = try FederationForm(request.content)
        let assertion = try verify(try form.required("assertion"))
        guard assertion.party == nil else {
            throw FederationFault(.invalidGrant, "a code is for a service, so the assertion has no azp")
        }
        try derive(.code, assertion, form, request, reply) { code, granted in
            .object {
                $0.member("code", code.text)
                $0.member("expires_in", granted.expiresAt - granted.issuedAt)
                $0.member("scope", granted.scope)
            }
        }
    }

    // MARK: - Revoke

    /// Revokes a token and all that were derived from it (RFC 7009).
    func revoke(_ request: FederationRequest, _ reply: FederationReply) throws(FederationFault) {
        let form = try FederationForm(request.content)
        let token = try form.required("token")
        if let text = form["client_assertion"] {
            guard form["client_assertion_type"] == Self.assertionType else {
                throw FederationFault(.invalidClient, "client_assertion_type is not \(Self.assertionType)")
            }
            let assertion = try rules.assertions.verify(text, else: .invalidClient, now: now)
            guard assertion.party == nil, assertion.parent == nil else {
                throw FederationFault(.invalidClient, "the assertion of an instance has neither azp nor parent")
            }
            try prove(request, by: .key(assertion.key), reply) { [self] () throws(FederationFault) in
                // The key's device is compared with that of the token, and the binding is looked up.
                perform(.show(.binding(assertion.key)), request, FederationSubject(), reply) {
                    [self] answer throws(FederationFault) in
                    guard case .device(let details) = answer,
                        details.device.identity.hardwareKey == assertion.instance,
                        details.bindings.contains(where: { $0.key == assertion.key && $0.isActive }),
                        details.device.state == .active
                    else { throw FederationFault(.instanceUnknown, isClient: true) }
                    try revoke(token, by: .instance(assertion.instance), request, reply)
                }
            }
        } else if form["client_secret"] != nil || request.authorization?.lowercased().hasPrefix("basic ") == true {
            try authenticateService(request, form, reply) { [self] service throws(FederationFault) in
                try revoke(token, by: .service(service.url), request, reply)
            }
        } else {
            try authenticateBearer(request, reply) { [self] caller throws(FederationFault) in
                switch caller {
                case .service(let service): try revoke(token, by: .service(service.url), request, reply)
                case .token(let found) where found.token.kind == .instance:
                    try revoke(token, by: .instance(found.token.device), request, reply)
                case .token(let found): try revoke(token, by: .holder(found.token.id), request, reply)
                }
            }
        }
    }

    private func revoke(
        _ text: String, by revoker: TokenRevoker, _ request: FederationRequest, _ reply: FederationReply
    ) throws(FederationFault) {
        var subject = FederationSubject()
        if case .instance(let device) = revoker { subject.device = rules.label(of: device) }
        // RFC 7009 section 2.2: what is no token needs no revocation.
        guard let id = try rules.id(ofToken: text) else { return reply.send(.done) }
        perform(.revokeToken(id, by: revoker), request, subject, reply) { [self] answer throws(FederationFault) in
            guard case .tokenRevocation(let result) = answer else { throw .storeUnavailable }
            switch result {
            case .foreign: throw FederationFault(.unauthorizedClient, "the token was not issued to this client")
            case .unknown: break
            case .revoked:
                shared.count { $0.tokensRevoked += 1 }
                granted(request, subject, "revoked")
            }
            reply.send(.done)
        }
    }

    // MARK: - Introspection

    /// Describes a token to the service that it is for (RFC 7662).
    func introspect(_ request: FederationRequest, _ reply: FederationReply) throws(FederationFault) {
        let form = try FederationForm(request.content)
        let token = try form.required("token")
        try authenticateService(request, form, reply) { [self] service throws(FederationFault) in
            guard let id = try rules.id(ofToken: token) else { return reply.send(.inactive) }
            perform(.findToken(id), request, FederationSubject(service: service.id), reply) {
                [self] answer throws(FederationFault) in
                guard case .foundToken(let found) = answer else { throw .storeUnavailable }
                guard let found, found.token.audience == service.url, found.isLive(at: now),
                    found.token.kind == .service || found.token.kind == .app
                else { return reply.send(.inactive) }
                let subject = try rules.subject(of: found)
                let issuer = rules.settings.url
                reply.send(
                    .object {
                        let token = found.token
                        $0.member("active", true)
                        $0.member("scope", token.scope)
                        $0.member("client_id", token.party ?? subject)
                        $0.member("token_type", "Bearer")
                        $0.member("exp", token.expiresAt)
                        $0.member("iat", token.issuedAt)
                        $0.member("sub", subject)
                        $0.member("aud", token.audience)
                        $0.member("iss", issuer)
                        $0.member("jti", token.id.base64URL)
                        $0.member("azp", token.party)
                        if let thumbprint = token.thumbprint { $0.object("cnf") { $0.member("jkt", thumbprint) } }
                    })
            }
        }
    }

    /// Describes a grant by its `jti` to the service that it was issued to.
    func validate(_ request: FederationRequest, _ reply: FederationReply) throws(FederationFault) {
        guard let object = try? JSONReader.object(in: request.content, longest: 1024),
            let id = object["jti"]?.text.flatMap({ Fingerprint(base64URL: $0) })
        else { throw .invalidRequest("the content is not an object with the jti of a token") }
        try authenticateService(request, nil, reply) { [self] service throws(FederationFault) in
            perform(.findToken(id), request, FederationSubject(service: service.id), reply) {
                [self] answer throws(FederationFault) in
                guard case .foundToken(let found) = answer else { throw .storeUnavailable }
                guard let found, found.token.audience == service.url, found.isLive(at: now) else {
                    throw FederationFault(.notFound, "no live grant of this service has this jti")
                }
                let subject = try rules.subject(of: found)
                reply.send(
                    .object {
                        $0.member("sub", subject)
                        $0.member("azp", found.token.party)
                        $0.member("iat", found.token.issuedAt)
                    })
            }
        }
    }
}

extension FederationResponse {
    /// RFC 6749 section 5.1.
    fileprivate static func token(
        _ token: FederationRules.FreshToken, _ granted: FederationToken
    ) -> FederationResponse {
        .object {
            $0.member("access_token", token.text)
            $0.member("token_type", "Bearer")
            $0.member("expires_in", granted.expiresAt - granted.issuedAt)
            $0.member("scope", granted.scope)
            $0.member("jti", granted.id.base64URL)
            if let thumbprint = granted.thumbprint { $0.object("cnf") { $0.member("jkt", thumbprint) } }
        }
    }

    fileprivate static var inactive: FederationResponse { .object { $0.member("active", false) } }
}

extension KeyID {
    /// The name of an instance.
    var base64URL: String { Base64URL.encode(bytes) }
}
