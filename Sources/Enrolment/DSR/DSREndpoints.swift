internal import Attestation
internal import Cryptography
internal import Encoding
internal import EventLoop
internal import Gateway
internal import Registry
internal import TLS
internal import Vocabulary

/// The endpoints of the reference system for enrolled devices. A client proves its request by nothing but its
/// certificate, and by what its attestation token shows.
extension DeviceEndpoints {
    /// Takes a new posture, and answers with a code for a device token.
    func attestForToken(_ request: EnrolmentRequest, by caller: Caller, _ reply: EnrolmentReply) {
        let subject = subject(of: caller)
        let posture: (claims: DSRClaims, nonce: SingleUse)
        let challenge: [UInt8]
        let identity: (key: KeyID, thumbprint: [UInt8])
        do throws(EnrolmentFault) {
            identity = try Self.identity(of: request)
            let content = try DSRContent(request.content)
            challenge = try content.codeChallenge()
            posture = try rules.attestationClaims(content.token, of: identity, now: WallClock.seconds)
        } catch {
            return refuse(.deviceAttestation, subject, error, caller, reply)
        }
        show(.id(caller.device.id), .deviceAttestation, subject, caller, reply) {
            [self] details throws(EnrolmentFault) in
            let shown = try rules.posture(
                posture.claims, posture.nonce, of: details, shared.keyStatus, now: WallClock.seconds)
            let keep: () -> Void = { [self] in
                perform(.reattest(shown.command), .deviceAttestation, subject, caller, reply) {
                    [self] answer throws(EnrolmentFault) in
                    _ = try Self.renewed(answer)
                    let code = try rules.nonces.issueCode(
                        for: identity.thumbprint, challenge: challenge, now: WallClock.seconds)
                    audit.granted(.deviceAttestation, subject, "attested")
                    reply.send(.text(code))
                }
            }
            guard let counter = shown.counter else { return keep() }
            let spending = EndpointEnforcement.Spending(
                counter: counter.value, shown: counter.shown, epoch: shown.command.epoch)
            spend(spending, .deviceAttestation, subject, caller, reply, keep)
        }
    }

    /// Issues a device token for a code, whose posture is in the registry already.
    func issueToken(_ request: EnrolmentRequest, by caller: Caller, _ reply: EnrolmentReply) {
        let subject = subject(of: caller)
        let code: SingleUse
        let identity: (key: KeyID, thumbprint: [UInt8])
        do throws(EnrolmentFault) {
            identity = try Self.identity(of: request)
            let form = FormFields(request.content)
            code = try Self.sessionOfCode { () throws(EnrolmentFault) in
                try rules.nonces.singleUse(
                    ofCode: try form.required(.code), for: identity.thumbprint,
                    verifier: try form.required(.codeVerifier), now: WallClock.seconds)
            }
        } catch {
            return refuse(.deviceToken, subject, error, caller, reply)
        }
        // Nothing new is shown. The code is spent as a nonce is.
        let command = Reattestation(
            device: caller.device.id, nonce: code, epoch: rules.nonces.epoch, phone: nil, evidence: nil,
            app: ShownApp())
        perform(.reattest(command), .deviceToken, subject, caller, reply) { [self] answer throws(EnrolmentFault) in
            let details = try Self.sessionOfCode { () throws(EnrolmentFault) in try Self.renewed(answer) }
            guard let issuer = rules.deviceTokens else { throw .dsr(.session) }
            let token = try EnrolmentFault.checking { () throws(CryptographyError) in
                try issuer.token(
                    for: DeviceTokenSubject(details, key: identity.key, thumbprint: identity.thumbprint),
                    now: WallClock.seconds)
            }
            audit.granted(.deviceToken, subject, "token")
            reply.send(.deviceToken(token))
        }
    }

    private static func renewed(_ answer: RegistryReply) throws(EnrolmentFault) -> DeviceDetails {
        guard case .reattestation(let verdict) = answer else { throw .storeUnavailable }
        switch verdict {
        case .refused(let refusal): throw EnrolmentFault(refusal)
        case .renewed(let details): return details
        }
    }

    /// Converts what a code shares with nonces.
    private static func sessionOfCode<Result>(
        _ check: () throws(EnrolmentFault) -> Result
    ) throws(EnrolmentFault) -> Result {
        do throws(EnrolmentFault) { return try check() } catch {
            throw error == .nonceRefused || error == .nonceExpired ? .dsr(.session) : error
        }
    }

    private static func identity(
        of request: EnrolmentRequest
    ) throws(EnrolmentFault) -> (key: KeyID, thumbprint: [UInt8]) {
        guard let certificate = request.certificate, let key = certificate.keyID else { throw .instanceUnknown }
        return (key, certificate.thumbprint)
    }

    // MARK: - Registrations

    /// Lists the devices of a person, which must be the caller's. Another person's list is empty, as that of a person
    /// without devices.
    func listRegistrations(_ request: EnrolmentRequest, by caller: Caller, _ reply: EnrolmentReply) {
        let subject = subject(of: caller)
        let user: [UInt8]
        let person: Fingerprint
        do throws(EnrolmentFault) {
            user = try FormFields(request.query).required(.userIdentifier)
            person = try pseudonym(of: user)
        } catch {
            return refuse(.deviceRegistrations, subject, error, caller, reply)
        }
        show(.id(caller.device.id), .deviceRegistrations, subject, caller, reply) {
            [self] own throws(EnrolmentFault) in
            guard own.device.subject == person else {
                audit.granted(.deviceRegistrations, subject, "listed")
                return reply.send(.deviceRegistrations([], of: ""))
            }
            let command = RegistryCommand.listSubject(person, limit: Self.listLimit)
            perform(command, .deviceRegistrations, subject, caller, reply) { [self] answer throws(EnrolmentFault) in
                guard case .devices(let devices) = answer else { throw .storeUnavailable }
                // The oldest first, as in the reference system.
                collect(
                    devices.reversed().filter { $0.state == .active }, of: String(decoding: user, as: UTF8.self),
                    subject, caller, reply)
            }
        }
    }

    /// Asks for the key of each device, one after the other, and answers.
    private func collect(
        _ devices: [Device], found: [(Device, key: KeyID)] = [], of user: String, _ subject: EnrolmentSubject,
        _ caller: Caller, _ reply: EnrolmentReply
    ) {
        guard let device = devices.first else {
            audit.granted(.deviceRegistrations, subject, "listed")
            return reply.send(.deviceRegistrations(found, of: user))
        }
        show(.id(device.id), .deviceRegistrations, subject, caller, reply) { [self] details throws(EnrolmentFault) in
            let key = details.bindings.last { $0.isActive }?.key
            collect(
                Array(devices.dropFirst()), found: found + (key.map { [(device, $0)] } ?? []), of: user, subject,
                caller, reply)
        }
    }

    /// Revokes the caller, or another device of the same person.
    func deregister(_ request: EnrolmentRequest, by caller: Caller, _ reply: EnrolmentReply) {
        var subject = subject(of: caller)
        let person: Fingerprint
        let target: KeyID
        let unknown: EnrolmentFault
        do throws(EnrolmentFault) {
            let fields = FormFields(request.query)
            person = try pseudonym(of: try fields.required(.userIdentifier))
            guard let cards = rules.cards else { throw .instanceUnknown }
            unknown = cards.unknown
            // Some clients leave the plus sign of base64 as it is.
            let name = try fields.required(.deviceIdentifier).map { $0 == 0x20 ? UInt8(ascii: "+") : $0 }
            guard let bytes = Base64.decode(name), let key = KeyID(digest: bytes.span) else { throw unknown }
            target = key
        } catch {
            return refuse(.deregistration, subject, error, caller, reply)
        }
        show(.id(caller.device.id), .deregistration, subject, caller, reply) { [self] own throws(EnrolmentFault) in
            guard own.device.subject == person else { throw unknown }
            perform(.show(.binding(target)), .deregistration, subject, caller, reply, unless: unknown) {
                [self] answer throws(EnrolmentFault) in
                guard case .device(let other) = answer else { throw .storeUnavailable }
                guard other.device.subject == person, other.device.state == .active,
                    other.bindings.contains(where: { $0.key == target && $0.isActive })
                else { throw unknown }
                subject.target = rules.label(of: other.device.identity.hardwareKey)
                perform(.revoke(other.device.id), .deregistration, subject, caller, reply) {
                    [self, subject] _ throws(EnrolmentFault) in
                    audit.granted(.deregistration, subject, "revoked")
                    reply.send(.deregistered)
                }
            }
        }
    }

    private func pseudonym(of user: [UInt8]) throws(EnrolmentFault) -> Fingerprint {
        guard let cards = rules.cards else { throw .instanceUnknown }
        return try cards.pseudonym(of: user)
    }
}
