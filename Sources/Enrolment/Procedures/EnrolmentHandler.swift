internal import Cryptography
internal import EventLoop
internal import Gateway
internal import Registry
internal import TLS
internal import Vocabulary

/// A complete request, except its head.
struct EnrolmentRequest {
    let endpoint: EnrolmentEndpoint
    let content: [UInt8]
    /// The instance that the path names. Nil if it names none.
    let instance: KeyID?
    /// Empty if there is none.
    let query: [UInt8]
    /// The client's certificate. Nil on the listener that requests none.
    let certificate: ClientIdentity?
}

/// The handler of complete requests. It applies the rules, asks the registry, answers and logs.
///
/// A command to the registry is completed even if the client no longer waits for the answer.
final class EnrolmentHandler {
    let rules: EnrolmentRules
    private let registry: DeviceRegistry
    private let registryRequests: RegistryRequests
    private let shared: EnrolmentShared
    private let audit: EnrolmentAudit
    /// Nil if no listener requests certificates.
    private let devices: DeviceEndpoints?

    /// - Parameter enforcement: Nil if no listener requests certificates.
    init(
        _ rules: EnrolmentRules, _ registry: DeviceRegistry, _ registryRequests: RegistryRequests,
        _ shared: EnrolmentShared,
        enforcement: EndpointEnforcement? = nil, audit: EnrolmentAudit
    ) {
        devices = enforcement.map { DeviceEndpoints($0, rules, registryRequests, shared, audit) }
        self.rules = rules
        self.registry = registry
        self.registryRequests = registryRequests
        self.shared = shared
        self.audit = audit
    }

    func serve(_ request: EnrolmentRequest, _ reply: EnrolmentReply) {
        guard request.certificate != nil else { return serve(request, from: nil, reply) }
        guard let devices else { return audit.refuse(request.endpoint, EnrolmentSubject(), .storeUnavailable, reply) }
        devices.admit(request, reply) { [self] in serve(request, from: $0, reply) }
    }

    /// - Parameter caller: The device of the certificate. Nil without a certificate.
    private func serve(
        _ request: EnrolmentRequest, from caller: EndpointEnforcement.Caller?, _ reply: EnrolmentReply
    ) {
        switch (request.endpoint, caller) {
        case (.nonce, _): sendNonce(reply)
        case (.initialization, _): initialize(request.content, reply)
        case (.keyBinding, let caller):
            bind(request.content, caller.map { .ofDevice($0.device.id) } ?? rules.renewal, reply)
        case (.deviceTokenKeys, _): sendTokenKeys(reply)
        case (.walletAttestation, _): attestWallet(request.content, reply)
        case (.federation, _): sendStatement(reply)
        case (.challenge, let caller?): devices?.challenge(caller, reply)
        case (.attestation, let caller?): devices?.attest(request, by: caller, reply)
        case (.instances, let caller?): devices?.list(by: caller, reply)
        case (.instance, let caller?): devices?.revoke(request, by: caller, reply)
        case (.registerDevice, _): register(request.content, reply)
        case (.deviceAttestation, let caller?): devices?.attestForToken(request, by: caller, reply)
        case (.deviceToken, let caller?): devices?.issueToken(request, by: caller, reply)
        case (.deviceRegistrations, let caller?): devices?.listRegistrations(request, by: caller, reply)
        case (.deregistration, let caller?): devices?.deregister(request, by: caller, reply)
        // No listener without certificates serves them.
        case (.challenge, nil), (.attestation, nil), (.instances, nil), (.instance, nil), (.deviceAttestation, nil),
            (.deviceToken, nil), (.deviceRegistrations, nil), (.deregistration, nil):
            audit.refuse(request.endpoint, EnrolmentSubject(), .instanceUnknown, reply)
        }
    }

    /// Whether the endpoint exists in this generation.
    func serves(_ endpoint: EnrolmentEndpoint) -> Bool {
        guard rules.cards == nil ? !endpoint.isReference : !endpoint.hasOwnNonces else { return false }
        return switch endpoint {
        case .deviceTokenKeys: !rules.tokenKeys.isEmpty
        case .walletAttestation: rules.wallets != nil
        case .federation: rules.wallets?.statement != nil
        default: true
        }
    }

    private func sendTokenKeys(_ reply: EnrolmentReply) {
        guard let set = shared.tokenKeys.set(now: WallClock.seconds) else {
            return reply.send(.refusal(EnrolmentRequestFault.endpointUnknown), .notFound)
        }
        reply.send(.deviceTokenKeys(set))
    }

    private func sendStatement(_ reply: EnrolmentReply) {
        guard let statement = rules.wallets?.statement, statement.isValid(at: WallClock.seconds) else {
            return audit.refuse(.federation, EnrolmentSubject(), .statementExpired, reply)
        }
        reply.send(.federationStatement(statement.text))
    }

    private func sendNonce(_ reply: EnrolmentReply) {
        do throws(EnrolmentFault) {
            // A client with a nonce needs the registry next.
            guard registry.isAvailable else { throw .storeUnavailable }
            let nonce = try rules.nonces.issue(now: WallClock.seconds)
            reply.send(rules.cards == nil ? .nonce(nonce) : .text(DSRNonce(nonce).text))
        } catch {
            reply.send(.refusal(error), error.error)
        }
    }

    // MARK: - Instance initialization

    private func initialize(_ content: [UInt8], _ reply: EnrolmentReply) {
        var subject = EnrolmentSubject()
        let request: InstanceRegistration
        do throws(EnrolmentFault) {
            request = try rules.initialization(content, shared.keyStatus, now: WallClock.seconds, &subject)
        } catch {
            countAttestation(subject)
            return audit.refuse(.initialization, subject, error, reply)
        }
        countAttestation(subject)
        registryRequests.perform(.initialize(request)) { [self, subject] result in
            do throws(EnrolmentFault) {
                let what = try Self.initialized(try result.get())
                audit.granted(.initialization, subject, what)
                reply.send(.initialized)
            } catch {
                audit.refuse(.initialization, subject, error, reply)
            }
        }
    }

    /// Registers a device for the holder of a health card, and issues the certificate of its key at once.
    private func register(_ content: [UInt8], _ reply: EnrolmentReply) {
        var subject = EnrolmentSubject()
        let registration: EnrolmentRules.CardRegistration
        do throws(EnrolmentFault) {
            registration = try rules.registration(content, shared.keyStatus, now: WallClock.seconds, &subject)
        } catch {
            countAttestation(subject)
            return audit.refuse(.registerDevice, subject, error, reply)
        }
        countAttestation(subject)
        registryRequests.perform(.initialize(registration.command)) { [self, subject] result in
            do throws(EnrolmentFault) {
                let what = try Self.initialized(try result.get())
                let issued = try rules.issue(
                    registration.planned, forKey: registration.point,
                    device: registration.command.identity.hardwareKey)
                shared.count { $0.certificatesIssued += 1 }
                audit.granted(.registerDevice, subject, what, serial: issued.serial)
                reply.send(.deviceRegistered(issued))
            } catch {
                audit.refuse(.registerDevice, subject, error, reply)
            }
        }
    }

    private func countAttestation(_ subject: EnrolmentSubject) {
        guard let verdict = subject.attestation else { return }
        shared.count { metrics in
            switch verdict {
            case .verified: metrics.attestationsVerified += 1
            case .refused: metrics.attestationsRefused += 1
            }
        }
    }

    private static func initialized(_ reply: RegistryReply) throws(EnrolmentFault) -> String {
        guard case .initialization(let verdict) = reply else { throw .storeUnavailable }
        switch verdict {
        case .registered: return "registered"
        case .repeated: return "repeated"
        case .refused(let refusal): throw EnrolmentFault(refusal)
        }
    }

    // MARK: - Client attestations

    private func attestWallet(_ content: [UInt8], _ reply: EnrolmentReply) {
        var subject = EnrolmentSubject()
        let shown: EnrolmentRules.ShownWallet
        do throws(EnrolmentFault) {
            shown = try rules.wallet(content, now: WallClock.seconds, &subject)
        } catch {
            return audit.refuse(.walletAttestation, subject, error, reply)
        }
        registryRequests.perform(.show(DeviceSelector(shown.request.hardwareKey))) { [self, subject] result in
            var subject = subject
            do throws(EnrolmentFault) {
                guard case .device(let details) = try result.get() else { throw .storeUnavailable }
                let command = try rules.command(
                    shown, of: details, shared.keyStatus, now: WallClock.seconds, &subject)
                attestWallet(shown.request, by: command, subject, reply)
            } catch {
                audit.refuse(.walletAttestation, subject, error, reply)
            }
        }
    }

    private func attestWallet(
        _ request: WalletRequest, by command: Reattestation, _ subject: EnrolmentSubject, _ reply: EnrolmentReply
    ) {
        registryRequests.perform(.reattest(command)) { [self] result in
            do throws(EnrolmentFault) {
                guard case .reattestation(let verdict) = try result.get(), let wallets = rules.wallets else {
                    throw .storeUnavailable
                }
                if case .refused(let refusal) = verdict { throw EnrolmentFault(refusal) }
                let attestation = try EnrolmentFault.checking { () throws(CryptographyError) in
                    try wallets.attestation(for: request.key, now: WallClock.seconds)
                }
                audit.granted(.walletAttestation, subject, "attested")
                reply.send(.walletAttestation(attestation))
            } catch {
                audit.refuse(.walletAttestation, subject, error, reply)
            }
        }
    }

    // MARK: - Key binding

    private func bind(_ content: [UInt8], _ renewal: KeyRenewal, _ reply: EnrolmentReply) {
        var subject = EnrolmentSubject()
        let shown: EnrolmentRules.ShownBinding
        do throws(EnrolmentFault) {
            shown = try rules.binding(content, shared.issuerKeys, now: WallClock.seconds, &subject)
        } catch {
            if error == .admission(.keyNotFetched) { shared.issuerKeys.isWanted = true }
            return audit.refuse(.keyBinding, subject, error, reply)
        }
        registryRequests.perform(.show(DeviceSelector(shown.binding.hardwareKey))) { [self, subject] result in
            var subject = subject
            do throws(EnrolmentFault) {
                guard case .device(let details) = try result.get() else { throw .storeUnavailable }
                let now = WallClock.seconds
                let planned = try rules.planCertificate(now: now)
                let command = try rules.command(
                    shown, planned, of: details, renewal, shared.keyStatus, now: now, &subject)
                bind(shown, planned, by: command, subject, reply)
            } catch {
                audit.refuse(.keyBinding, subject, error, reply)
            }
        }
    }

    private func bind(
        _ shown: EnrolmentRules.ShownBinding, _ planned: PlannedClientCertificate, by command: BindingRequest,
        _ subject: EnrolmentSubject, _ reply: EnrolmentReply
    ) {
        registryRequests.perform(.bindKey(command)) { [self] result in
            do throws(EnrolmentFault) {
                let (details, what) = try Self.bound(try result.get())
                // The binding is durable. If issuing fails or the certificate is lost, the phone binds the same key
                // again and gets another. It then uses a new nonce and a new assertion.
                let issued = try rules.issue(planned, forKey: shown.binding.point, device: command.hardwareKey)
                var token: String?
                if rules.tokensAreIssuedAtBinding {
                    token = try rules.deviceToken(
                        for: details, key: command.key, thumbprint: issued.thumbprint, now: WallClock.seconds)
                }
                shared.count { $0.certificatesIssued += 1 }
                audit.granted(.keyBinding, subject, what, serial: issued.serial)
                reply.send(.bound(issued, deviceToken: token))
            } catch {
                audit.refuse(.keyBinding, subject, error, reply)
            }
        }
    }

    private static func bound(_ reply: RegistryReply) throws(EnrolmentFault) -> (DeviceDetails, what: String) {
        guard case .keyBinding(let verdict) = reply else { throw .storeUnavailable }
        switch verdict {
        case .bound(let details, .first): return (details, "first")
        case .bound(let details, .rotation): return (details, "rotation")
        case .bound(let details, .renewal): return (details, "renewal")
        case .refused(let refusal): throw EnrolmentFault(refusal)
        }
    }
}

extension DeviceSelector {
    fileprivate init(_ name: HardwareKeyName) {
        switch name {
        case .keyID(let keyID): self = .hardwareKey(keyID)
        case .tag(let tag): self = .tag(tag)
        }
    }
}
