internal import Encoding
internal import Enrolment
internal import EventLoop
internal import Gateway
internal import Registry
internal import TLS
internal import Vocabulary

/// A complete request, except its head.
struct FederationRequest {
    let endpoint: FederationEndpoint
    let content: [UInt8]
    /// The value of Authorization. Nil without one.
    let authorization: String?
    /// The client's certificate. Nil without one.
    let certificate: ClientIdentity?
}

/// The handler of complete requests: it applies the rules, asks the registry, answers and logs.
///
/// A command to the registry is completed even if the client no longer waits for the answer.
final class FederationHandler {
    let rules: FederationRules
    let shared: FederationShared
    private let registryRequests: RegistryRequests
    private let enforcement: EndpointEnforcement
    private let audit: FederationAudit

    init(
        _ rules: FederationRules, _ registryRequests: RegistryRequests, _ enforcement: EndpointEnforcement,
        _ shared: FederationShared, _ audit: FederationAudit
    ) {
        self.rules = rules
        self.registryRequests = registryRequests
        self.enforcement = enforcement
        self.shared = shared
        self.audit = audit
    }

    var now: Int64 { WallClock.seconds }

    func serve(_ request: FederationRequest, _ reply: FederationReply) {
        do throws(FederationFault) {
            switch request.endpoint {
            case .token: try issue(request, reply)
            case .authorize: try authorize(request, reply)
            case .revoke: try revoke(request, reply)
            case .introspect: try introspect(request, reply)
            case .validate: try validate(request, reply)
            case .challenge: try sendChallenge(request, reply)
            case .usedServices: try listUsedServices(request, reply)
            case .protocolDiscovery: try discoverProtocols(request, reply)
            case .descriptionDiscovery: try discoverDescriptions(request, reply)
            case .serviceDiscovery: try discoverService(request, reply)
            case .join: try join(request, reply)
            case .ownDescription: reply.send(.json(rules.ownDescription))
            }
        } catch {
            refuse(request, FederationSubject(), error, reply)
        }
    }

    // MARK: - Registry, answers

    /// Sends a command to the registry, and answers a refusal.
    func perform(
        _ command: RegistryCommand, _ request: FederationRequest, _ subject: FederationSubject,
        _ reply: FederationReply, _ proceed: @escaping (RegistryReply) throws(FederationFault) -> Void
    ) {
        let complete = { [self] (result: Result<RegistryReply, StoreError>) in
            do throws(FederationFault) {
                switch result {
                case .success(let answer): try proceed(answer)
                case .failure(.bindingUnknown): throw FederationFault(.instanceUnknown, isClient: true)
                case .failure: throw .storeUnavailable
                }
            } catch {
                refuse(request, subject, error, reply)
            }
        }
        if !registryRequests.send(command, completion: complete) {
            refuse(request, subject, .storeUnavailable, reply)
        }
    }

    func refuse(
        _ request: FederationRequest, _ subject: FederationSubject, _ fault: FederationFault, _ reply: FederationReply,
        _ caller: EndpointEnforcement.Caller? = nil
    ) {
        var value: [UInt8]?
        if fault.denial?.asksForProof == true, let exchange = reply.exchange {
            value = enforcement.acceptSignature(for: exchange.head, caller, now: now)
        }
        audit.refused(request.endpoint, subject, fault, now: now)
        reply.send(.refusal(fault, acceptSignature: value), fault.error)
    }

    func granted(_ request: FederationRequest, _ subject: FederationSubject, _ what: String) {
        audit.granted(request.endpoint, subject, what)
    }

    // MARK: - Callers

    /// Finds the service that authenticates with its own token: as Basic (RFC 6749 section 2.3.1), Bearer or
    /// `client_secret`.
    func authenticateService(
        _ request: FederationRequest, _ form: FederationForm? = nil, _ reply: FederationReply,
        _ proceed: @escaping (FederationService) throws(FederationFault) -> Void
    ) throws(FederationFault) {
        let credentials = try Credentials(request.authorization, form)
        guard let credentials, let secret = try rules.id(ofToken: credentials.secret) else {
            throw FederationFault(.invalidClient, "the service must authenticate with its own token")
        }
        perform(.findService(.secret(secret)), request, FederationSubject(), reply) { answer throws(FederationFault) in
            guard case .service(.service(let service)) = answer, credentials.id.map({ $0 == service.id }) ?? true else {
                throw FederationFault(.invalidClient, "there is no such service, or its token is another")
            }
            guard service.isActive else {
                throw FederationFault(.invalidClient, "the service is not approved")
            }
            try proceed(service)
        }
    }

    /// Who calls with a bearer token.
    enum Bearer {
        case token(FoundToken)
        case service(FederationService)

        /// The device of an instance's token.
        var instance: FoundToken? {
            if case .token(let found) = self, found.token.kind == .instance { found } else { nil }
        }
    }

    /// Finds the caller of a bearer token. Instances prove their request where that is required.
    func authenticateBearer(
        _ request: FederationRequest, _ reply: FederationReply,
        _ proceed: @escaping (Bearer) throws(FederationFault) -> Void
    ) throws(FederationFault) {
        guard let credentials = try Credentials(request.authorization, nil) else {
            throw FederationFault(.invalidToken, "the request has no token")
        }
        guard let id = try rules.id(ofToken: credentials.secret) else {
            throw FederationFault(.invalidToken, "the token is unknown, expired or revoked")
        }
        perform(.findToken(id), request, FederationSubject(), reply) { [self] answer throws(FederationFault) in
            guard case .foundToken(let found) = answer else { throw .storeUnavailable }
            guard let found else {
                perform(.findService(.secret(id)), request, FederationSubject(), reply) {
                    answer throws(FederationFault) in
                    guard case .service(.service(let service)) = answer, service.isActive,
                        credentials.id.map({ $0 == service.id }) ?? true
                    else { throw FederationFault(.invalidToken, "the token is unknown, expired or revoked") }
                    try proceed(.service(service))
                }
                return
            }
            guard credentials.id == nil, found.isLive(at: now) else {
                throw FederationFault(.invalidToken, "the token is unknown, expired or revoked")
            }
            guard found.token.kind == .instance else { return try proceed(.token(found)) }
            try prove(request, by: .device(found.device), reply) { () throws(FederationFault) in
                try proceed(.token(found))
            }
        }
    }

    /// Finds the instance that calls with its token.
    func authenticateInstance(
        _ request: FederationRequest, _ reply: FederationReply,
        _ proceed: @escaping (FoundToken) throws(FederationFault) -> Void
    ) throws(FederationFault) {
        try authenticateBearer(request, reply) { caller throws(FederationFault) in
            guard let instance = caller.instance else {
                throw FederationFault(.invalidToken, "the token is not that of an instance")
            }
            try proceed(instance)
        }
    }

    // MARK: - Proofs

    /// The device that must have made the proof.
    enum Prover {
        case device(DeviceID)
        case key(KeyID)
    }

    /// Verifies the proof of a request, if the settings require one.
    ///
    /// - Parameter proceed: Called when its counter is durable, or if none is required.
    func prove(
        _ request: FederationRequest, by prover: Prover, _ reply: FederationReply,
        _ proceed: @escaping () throws(FederationFault) -> Void
    ) throws(FederationFault) {
        guard rules.settings.requiresProof else { return try proceed() }
        guard let certificate = request.certificate else { throw FederationFault(Refusal(.certificateAbsent)) }
        admit(certificate, request, reply) { [self] caller in
            do throws(FederationFault) {
                let isOwn =
                    switch prover {
                    case .device(let device): caller.device.id == device
                    case .key(let key): certificate.keyID == key
                    }
                guard isOwn else {
                    throw FederationFault(.invalidToken, "the certificate is of another device than the token")
                }
                guard let exchange = reply.exchange else { return }
                let proof: EndpointEnforcement.Proof
                do throws(Refusal) {
                    proof = try enforcement.verify(
                        exchange.head, exchange.headBytes.readable, by: caller, now: now)
                    try enforcement.match(request.content, of: proof)
                } catch {
                    throw FederationFault(error)
                }
                spend(proof.spending, of: caller, request, reply, proceed)
            } catch {
                refuse(request, subject(of: caller), error, reply, caller)
            }
        }
    }

    private func subject(of caller: EndpointEnforcement.Caller) -> FederationSubject {
        FederationSubject(device: rules.label(of: caller.device.hardwareKey))
    }

    /// Finds the device of a certificate.
    private func admit(
        _ certificate: ClientIdentity, _ request: FederationRequest, _ reply: FederationReply,
        _ proceed: @escaping (EndpointEnforcement.Caller) -> Void
    ) {
        func judge(_ lookup: DeviceLookup) {
            do throws(Refusal) {
                let caller = try enforcement.admit(lookup, isSelfSigned: certificate.kind == .selfSigned)
                reply.exchange?.connection.recognize()
                reply.exchange?.connection.authenticated()
                proceed(caller)
            } catch {
                refuse(request, FederationSubject(), FederationFault(error), reply)
            }
        }
        // Only P-256 keys can be bound.
        guard let key = certificate.keyID else { return judge(.unknown) }
        registryRequests.lookUp(key) { judge($0) }
    }

    private func spend(
        _ proof: EndpointEnforcement.Spending, of caller: EndpointEnforcement.Caller, _ request: FederationRequest,
        _ reply: FederationReply, _ proceed: @escaping () throws(FederationFault) -> Void
    ) {
        func finish(_ refusal: Refusal?) {
            do throws(FederationFault) {
                if let refusal { throw FederationFault(refusal) }
                try proceed()
            } catch {
                refuse(request, subject(of: caller), error, reply, caller)
            }
        }
        let acceptance = registryRequests.spend(
            proof.counter, of: caller.device, showing: proof.shown, mode: caller.counters, epoch: proof.epoch
        ) { finish(proof.refusal(of: $0)) }
        if let refusal = proof.refusal(of: acceptance) { finish(refusal) }
    }

    /// Answers with a challenge for the next proof.
    private func sendChallenge(_ request: FederationRequest, _ reply: FederationReply) throws(FederationFault) {
        guard let certificate = request.certificate else { throw FederationFault(Refusal(.certificateAbsent)) }
        admit(certificate, request, reply) { [self] caller in
            guard let head = reply.exchange?.head else { return }
            reply.send(.challenge(enforcement.acceptSignature(for: head, caller, now: now)))
        }
    }
}

/// What a client shows to authenticate.
struct Credentials {
    /// The name of the client. Nil for a bearer token.
    let id: String?
    let secret: String

    /// Reads them from Authorization, or from the parameters `client_id` and `client_secret`.
    ///
    /// - Returns: nil if there are none.
    init?(_ authorization: String?, _ form: FederationForm?) throws(FederationFault) {
        let ofForm = form?["client_secret"]
        guard let authorization else {
            guard let ofForm else { return nil }
            (id, secret) = (form?["client_id"], ofForm)
            return
        }
        // RFC 6749 section 2.3: no more than one method.
        guard ofForm == nil else { throw .invalidRequest("the client authenticates in two ways") }
        let words = authorization.split(separator: " ", maxSplits: 1)
        switch (words.first?.lowercased(), words.count) {
        case ("bearer", 2): (id, secret) = (nil, String(words[1]))
        case ("basic", 2):
            guard let bytes = Base64.decode(String(words[1])), let colon = bytes.firstIndex(of: UInt8(ascii: ":")),
                let id = FederationForm.decode(bytes[..<colon]),
                let secret = FederationForm.decode(bytes[(colon + 1)...])
            else { throw FederationFault(.invalidClient, "the credentials are malformed") }
            (self.id, self.secret) = (id, secret)
        default: throw FederationFault(.invalidClient, "the scheme of Authorization is neither Bearer nor Basic")
        }
    }
}
