internal import Encoding
internal import HTTP
internal import Registry
internal import Vocabulary

extension FederationHandler {
    /// The maximum of protocols or services in a request.
    private static let listLimit = 64

    // MARK: - Services

    /// Lists the services that the person of an instance has used.
    func listUsedServices(_ request: FederationRequest, _ reply: FederationReply) throws(FederationFault) {
        try authenticateInstance(request, reply) { [self] found throws(FederationFault) in
            let subject = FederationSubject(device: rules.label(of: found.token.device))
            perform(.listUsedServices(found.device), request, subject, reply) { answer throws(FederationFault) in
                guard case .services(let services) = answer else { throw .storeUnavailable }
                reply.send(.array(services.map(Self.entry)))
            }
        }
    }

    /// Finds a service by its home page.
    func discoverService(_ request: FederationRequest, _ reply: FederationReply) throws(FederationFault) {
        let urls = try texts(request.content, "URLs of services")
        guard urls.count == 1 else { throw .invalidRequest("the content is not one URL") }
        try authenticateInstance(request, reply) { [self] found throws(FederationFault) in
            let subject = FederationSubject(device: rules.label(of: found.token.device))
            perform(.findService(.url(urls[0])), request, subject, reply) { answer throws(FederationFault) in
                guard case .service(.service(let service)) = answer, service.isActive else {
                    throw FederationFault(.notFound, "no approved service has this home page")
                }
                reply.send(.json(Self.entry(service)))
            }
        }
    }

    private static func entry(_ service: FederationService) -> [UInt8] {
        JSONWriter.object {
            $0.member("name", service.name)
            $0.member("link", service.url)
            $0.member("token_endpoint", service.tokenEndpoint)
            $0.member("info", service.info)
        }
    }

    // MARK: - Protocols

    /// Finds the services that speak all of some protocols.
    func discoverProtocols(_ request: FederationRequest, _ reply: FederationReply) throws(FederationFault) {
        let protocols = Set(try texts(request.content, "ids of protocols"))
        try authenticateBearer(request, reply) { [self] _ throws(FederationFault) in
            reply.send(.array(protocols.isEmpty ? [] : shared.directory.speaking(protocols).map(\.text)))
        }
    }

    /// Returns the descriptions of services.
    func discoverDescriptions(_ request: FederationRequest, _ reply: FederationReply) throws(FederationFault) {
        let urls = Set(try texts(request.content, "URLs of services"))
        try authenticateBearer(request, reply) { [self] _ throws(FederationFault) in
            reply.send(.array(shared.directory.described(urls).map(\.text)))
        }
    }

    /// Parses an array of texts, or one text.
    private func texts(_ content: [UInt8], _ what: String) throws(FederationFault) -> [String] {
        let prefix = Array(#"{"v":"#.utf8)
        let wrapped = prefix + content + [UInt8(ascii: "}")]
        let fault = FederationFault.invalidRequest("the content is not an array of at most \(Self.listLimit) \(what)")
        guard let object = try? JSONReader.object(in: wrapped, longest: 64 << 10, most: Self.listLimit),
            object.members.count == 1, let value = object["v"]
        else { throw fault }
        let values = if case .array(let values) = value { values } else { [value] }
        var texts: [String] = []
        for value in values {
            guard let text = value.text.flatMap({ String(validating: $0, as: UTF8.self) }),
                (1...FederationToken.textLimit).contains(text.utf8.count)
            else { throw fault }
            texts.append(text)
        }
        return texts
    }

    // MARK: - Joining

    private static let joinMembers = ["service_uuid", "name", "mainurl", "token_endpoint", "rsdurl", "info"]

    /// Has a service join. It gets its own token, which is accepted once an operator has approved the service.
    func join(_ request: FederationRequest, _ reply: FederationReply) throws(FederationFault) {
        guard let credentials = try Credentials(request.authorization, nil), credentials.id == nil,
            let name = try rules.operatorName(credentials.secret)
        else { throw FederationFault(.invalidToken, "the request has no token of an operator") }
        let token = try rules.freshToken()
        let service = try service(request.content, of: name, secret: token.id)
        let subject = FederationSubject(service: service.id, operatorName: name)
        perform(.joinService(service), request, subject, reply) { [self] answer throws(FederationFault) in
            guard case .service(let verdict) = answer else { throw .storeUnavailable }
            switch verdict {
            case .urlTaken: throw .invalidRequest("another service has this mainurl")
            case .idTaken:
                throw FederationFault(.unauthorizedClient, "the service_uuid is that of another operator's service")
            case .tooMany: throw .invalidRequest("the federation has as many services as it may have")
            case .unknown: throw .storeUnavailable
            case .service(let service):
                granted(request, subject, service.isActive ? "joined again" : "joined")
                reply.send(
                    .object(201) {
                        $0.member("service_uuid", service.id)
                        $0.member("token", token.text)
                        $0.member("approved", service.isActive)
                    })
            }
        }
    }

    private func service(_ content: [UInt8], of operatorName: String, secret: Fingerprint) throws(FederationFault)
        -> FederationService
    {
        guard let object = try? JSONReader.object(in: content, longest: 16 << 10), object.hasOnly(Self.joinMembers)
        else { throw .invalidRequest("the content is not an object with \(Self.joinMembers.joined(separator: ", "))") }
        func text(_ name: String, _ limit: Int) throws(FederationFault) -> String {
            guard let text = object[name]?.text.flatMap({ String(validating: $0, as: UTF8.self) }),
                (1...limit).contains(text.utf8.count), !text.unicodeScalars.contains(where: { $0.value < 0x20 })
            else { throw .invalidRequest("\(name) is not a text of 1 to \(limit) bytes") }
            return text
        }
        func url(_ name: String) throws(FederationFault) -> String {
            let text = try text(name, FederationToken.textLimit)
            guard let url = SecureURL(text), url.namedHost != nil else {
                throw .invalidRequest("\(name) is not an https URL with the name of a host")
            }
            return text
        }
        let id = try text("service_uuid", 36)
        let home = try url("mainurl")
        // The federation's own URL is the audience of instances.
        guard let origin = SecureURL(home)?.origin, origin != SecureURL(rules.settings.url)?.origin else {
            throw .invalidRequest("mainurl is on the federation's own server")
        }
        guard Self.isUUID(id) else { throw .invalidRequest("service_uuid is not a UUID in lower case") }
        return FederationService(
            id: id, name: try text("name", 256), url: home, tokenEndpoint: try url("token_endpoint"),
            descriptionURL: try url("rsdurl"), info: object["info"] == nil ? nil : try text("info", 1024),
            operatorName: operatorName, secret: secret, joinedAt: now)
    }

    private static func isUUID(_ text: String) -> Bool {
        let groups = text.split(separator: "-", omittingEmptySubsequences: false)
        return groups.map(\.utf8.count) == [8, 4, 4, 4, 12]
            && groups.allSatisfy { $0.utf8.allSatisfy { Hexadecimal.value(lowercase: $0) != nil } }
    }
}

extension FederationRules {
    /// The federation's own RSD2 document.
    var ownDescription: [UInt8] {
        JSONWriter.object {
            $0.member("engineName", settings.name)
            $0.member("engineLink", settings.url)
            $0.member("homePageLink", settings.url)
            $0.object("apis") { apis in
                for (id, endpoint) in Self.protocols {
                    apis.object(id) {
                        $0.member("apiLink", endpoint.path)
                        $0.member("apiVersion", "1")
                    }
                }
            }
        }
    }

    private static let protocols: [(String, FederationEndpoint)] = [
        ("org.ietf.oauth2", .token), ("org.ietf.rfc7009", .revoke), ("org.ietf.rfc7662", .introspect),
        ("eu.edu-id.service-discovery", .serviceDiscovery), ("eu.edu-id.protocol-discovery", .protocolDiscovery),
    ]
}
