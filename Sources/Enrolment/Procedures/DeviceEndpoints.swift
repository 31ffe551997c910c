internal import EventLoop
internal import Gateway
internal import Registry
internal import TLS
internal import Vocabulary

/// The endpoints of enrolled devices, which are known by their client certificate. Requests that change anything need
/// a proof, whose counter is durable before the change.
final class DeviceEndpoints {
    typealias Caller = EndpointEnforcement.Caller

    private let enforcement: EndpointEnforcement
    let rules: EnrolmentRules
    private let registryRequests: RegistryRequests
    let shared: EnrolmentShared
    let audit: EnrolmentAudit

    /// The maximum of devices in a list.
    static let listLimit = 256

    init(
        _ enforcement: EndpointEnforcement, _ rules: EnrolmentRules, _ registryRequests: RegistryRequests,
        _ shared: EnrolmentShared, _ audit: EnrolmentAudit
    ) {
        self.enforcement = enforcement
        self.rules = rules
        self.registryRequests = registryRequests
        self.shared = shared
        self.audit = audit
    }

    /// Finds the device of the client's certificate.
    ///
    /// - Parameter serve: Called if it may use the endpoints; a refusal is answered.
    func admit(_ request: EnrolmentRequest, _ reply: EnrolmentReply, _ serve: @escaping (Caller) -> Void) {
        let isSelfSigned = request.certificate?.kind == .selfSigned
        // Only P-256 keys can be bound.
        guard let key = request.certificate?.keyID else { return judge(.unknown, isSelfSigned, request, reply, serve) }
        registryRequests.lookUp(key) { [self] in judge($0, isSelfSigned, request, reply, serve) }
    }

    private func judge(
        _ lookup: DeviceLookup, _ isSelfSigned: Bool, _ request: EnrolmentRequest, _ reply: EnrolmentReply,
        _ serve: (Caller) -> Void
    ) {
        let caller: Caller
        do throws(Refusal) {
            caller = try enforcement.admit(lookup, isSelfSigned: isSelfSigned)
        } catch {
            var subject = EnrolmentSubject()
            if case .found(let device) = lookup { subject.device = rules.label(of: device.hardwareKey) }
            return audit.refuse(request.endpoint, subject, EnrolmentFault(error), reply)
        }
        reply.exchange?.connection.recognize()
        reply.exchange?.connection.authenticated()
        serve(caller)
    }

    // MARK: - Endpoints

    /// Answers with a challenge for the next proof.
    func challenge(_ caller: Caller, _ reply: EnrolmentReply) {
        guard let head = reply.exchange?.head else { return }
        reply.send(.challenge(enforcement.acceptSignature(for: head, caller, now: WallClock.seconds)))
    }

    /// Takes a new posture.
    func attest(_ request: EnrolmentRequest, by caller: Caller, _ reply: EnrolmentReply) {
        let subject = subject(of: caller)
        let posture: PostureRequest
        let nonce: SingleUse
        let proof: EndpointEnforcement.Proof
        do throws(EnrolmentFault) {
            posture = try PostureRequest(request.content, now: WallClock.seconds)
            nonce = try rules.nonces.singleUse(of: posture.nonce, now: WallClock.seconds)
            proof = try prove(request, by: caller, reply)
        } catch {
            return refuse(.attestation, subject, error, caller, reply)
        }
        show(.id(caller.device.id), .attestation, subject, caller, reply) { [self] details throws(EnrolmentFault) in
            let command = try rules.reattestation(
                posture, nonce, showing: proof.app, of: details, shared.keyStatus, now: WallClock.seconds)
            spend(proof.spending, .attestation, subject, caller, reply) { [self] in
                perform(.reattest(command), .attestation, subject, caller, reply) {
                    [self] answer throws(EnrolmentFault) in
                    guard case .reattestation(let verdict) = answer else { throw .storeUnavailable }
                    switch verdict {
                    case .refused(let refusal): throw EnrolmentFault(refusal)
                    case .renewed(let details):
                        let key = caller.device.binding
                        let token = try rules.deviceToken(
                            for: details, key: key, thumbprint: request.certificate?.thumbprint,
                            now: WallClock.seconds)
                        audit.granted(.attestation, subject, "attested")
                        reply.send(.attested(Posture(details, binding: key), deviceToken: token))
                    }
                }
            }
        }
    }

    /// Lists the devices of the caller's person; without one only the caller.
    func list(by caller: Caller, _ reply: EnrolmentReply) {
        let subject = subject(of: caller)
        show(.id(caller.device.id), .instances, subject, caller, reply) { [self] details throws(EnrolmentFault) in
            guard let person = details.device.subject else {
                audit.granted(.instances, subject, "listed")
                return reply.send(.instances([details.device], current: caller.device.id))
            }
            let command = RegistryCommand.listSubject(person, limit: Self.listLimit)
            perform(command, .instances, subject, caller, reply) { [self] answer throws(EnrolmentFault) in
                guard case .devices(let devices) = answer else { throw .storeUnavailable }
                audit.granted(.instances, subject, "listed")
                reply.send(.instances(devices, current: caller.device.id))
            }
        }
    }

    /// Revokes the caller, or another device of the same person.
    func revoke(_ request: EnrolmentRequest, by caller: Caller, _ reply: EnrolmentReply) {
        var subject = subject(of: caller)
        let proof: EndpointEnforcement.Proof
        let target: KeyID
        do throws(EnrolmentFault) {
            try InstanceChange.check(request.content)
            guard let instance = request.instance else { throw .instanceUnknown }
            target = instance
            proof = try prove(request, by: caller, reply)
        } catch {
            return refuse(.instance, subject, error, caller, reply)
        }
        subject.target = rules.label(of: target)
        show(.id(caller.device.id), .instance, subject, caller, reply) { [self, subject] own throws(EnrolmentFault) in
            show(.hardwareKey(target), .instance, subject, caller, reply) { [self] other throws(EnrolmentFault) in
                guard
                    own.device.id == other.device.id || own.device.subject.map({ $0 == other.device.subject }) ?? false
                else { throw .instanceOfAnother }
                spend(proof.spending, .instance, subject, caller, reply) { [self] in
                    let command = RegistryCommand.revoke(other.device.id)
                    perform(command, .instance, subject, caller, reply) { [self] _ throws(EnrolmentFault) in
                        audit.granted(.instance, subject, "revoked")
                        reply.send(.revoked)
                    }
                }
            }
        }
    }

    // MARK: - Steps

    func subject(of caller: Caller) -> EnrolmentSubject {
        EnrolmentSubject(device: rules.label(of: caller.device.hardwareKey), app: caller.app)
    }

    /// Verifies the proof of a complete request.
    private func prove(
        _ request: EnrolmentRequest, by caller: Caller, _ reply: EnrolmentReply
    ) throws(EnrolmentFault) -> EndpointEnforcement.Proof {
        // Without an exchange the client has left, and nobody learns the refusal.
        guard let exchange = reply.exchange else { throw .storeUnavailable }
        do throws(Refusal) {
            let proof = try enforcement.verify(
                exchange.head, exchange.headBytes.readable, by: caller, now: WallClock.seconds)
            try enforcement.match(request.content, of: proof)
            return proof
        } catch {
            throw EnrolmentFault(error)
        }
    }

    /// Spends the counter of a proof.
    ///
    /// - Parameter proceed: Called when it is durable.
    func spend(
        _ proof: EndpointEnforcement.Spending, _ endpoint: EnrolmentEndpoint, _ subject: EnrolmentSubject,
        _ caller: Caller, _ reply: EnrolmentReply, _ proceed: @escaping () -> Void
    ) {
        let acceptance = registryRequests.spend(
            proof.counter, of: caller.device, showing: proof.shown, mode: caller.counters, epoch: proof.epoch
        ) { [self] outcome in
            guard let refusal = proof.refusal(of: outcome) else { return proceed() }
            refuse(endpoint, subject, EnrolmentFault(refusal), caller, reply)
        }
        if let refusal = proof.refusal(of: acceptance) {
            refuse(endpoint, subject, EnrolmentFault(refusal), caller, reply)
        }
    }

    func show(
        _ device: DeviceSelector, _ endpoint: EnrolmentEndpoint, _ subject: EnrolmentSubject, _ caller: Caller,
        _ reply: EnrolmentReply, _ proceed: @escaping (DeviceDetails) throws(EnrolmentFault) -> Void
    ) {
        perform(.show(device), endpoint, subject, caller, reply) { answer throws(EnrolmentFault) in
            guard case .device(let details) = answer else { throw .storeUnavailable }
            try proceed(details)
        }
    }

    /// Sends a command to the registry, and answers a refusal.
    ///
    /// - Parameter unknown: The refusal of a device that does not exist.
    func perform(
        _ command: RegistryCommand, _ endpoint: EnrolmentEndpoint, _ subject: EnrolmentSubject, _ caller: Caller,
        _ reply: EnrolmentReply, unless unknown: EnrolmentFault = .instanceUnknown,
        _ proceed: @escaping (RegistryReply) throws(EnrolmentFault) -> Void
    ) {
        registryRequests.perform(command) { [self] result in
            do throws(EnrolmentFault) { try proceed(try result.get()) } catch {
                refuse(endpoint, subject, error == .instanceUnknown ? unknown : error, caller, reply)
            }
        }
    }

    func refuse(
        _ endpoint: EnrolmentEndpoint, _ subject: EnrolmentSubject, _ fault: EnrolmentFault, _ caller: Caller,
        _ reply: EnrolmentReply
    ) {
        var value: [UInt8]?
        if case .denied(let denial, _, _) = fault, denial.asksForProof, let exchange = reply.exchange {
            value = enforcement.acceptSignature(for: exchange.head, caller, now: WallClock.seconds)
        }
        audit.refuse(endpoint, subject, fault, reply, acceptSignature: value)
    }
}
