/// A client of an enrolled phone at the service's listener for enrolled devices: a new posture, the devices of the
/// phone's user, and the revocation of one of them, such as a lost phone.
///
/// ```swift
/// let client = DeviceClient(
///     devices: "https://devices.example.org", key: AppAttestKey(keyID: keyID),
///     clock: { Int64(Date().timeIntervalSince1970) }, send: { request in try await session.answer(to: request) })
/// for device in try await client.instances() where device.id == lost { try await client.revoke(device.id) }
/// ```
///
/// All functions throw `EnrolmentFailure`, `AttestedClientError` without a challenge, and the errors of closures and
/// key. The certificate is renewed by `EnrolmentClient.enrol` with the same `devices`.
public struct DeviceClient<Key: HardwareKey>: Sendable {
    private let devices: String
    private let client: AttestedClient<Key>
    private let send: @Sendable (EnrolmentRequest) async throws -> EnrolmentAnswer

    /// Creates a client.
    ///
    /// - Parameters:
    ///   - devices: The base URL of the listener. A slash at its end is removed.
    ///   - clock: Returns the time in seconds since 1970.
    ///   - send: Sends the request over TLS with the client certificate, with the lines of `EnrolmentRequest.fields`.
    ///     The answer needs the lines of Accept-Signature.
    /// - Returns: nil unless `EnrolmentServiceAddress` accepts the URL.
    public init?(
        devices: String, key: Key, clock: @escaping @Sendable () -> Int64,
        send: @escaping @Sendable (EnrolmentRequest) async throws -> EnrolmentAnswer
    ) {
        guard let address = EnrolmentServiceAddress(url: devices) else { return nil }
        self.devices = address.url
        client = AttestedClient(key: key, clock: clock)
        self.send = send
    }

    /// Shows a new posture, of which the proof itself is the evidence.
    ///
    /// - Parameter signals: What the app states about the phone: a JSON object of at most 4 KiB, or nil.
    public func attest(signals: [UInt8]? = nil) async throws -> AttestedPosture {
        let answer = try await send(EnrolmentRequest(.nonce, atDevices: devices))
        guard let nonce = answer.nonce else { throw EnrolmentFailure(answer, .nonce) }
        let attested = try await prove(
            .attestation(atDevices: devices, nonce, signals: signals), isIdempotent: false)
        guard let posture = attested.posture else { throw EnrolmentFailure(attested, .attestation) }
        return posture
    }

    /// Returns the devices of the phone's user, newest first; only this phone if the service knows no user.
    public func instances() async throws -> [DeviceInstance] {
        let answer = try await send(EnrolmentRequest(.instances, atDevices: devices))
        guard let instances = answer.instances else { throw EnrolmentFailure(answer, .instances) }
        return instances
    }

    /// Revokes a device of the phone's user. Its connections are closed, and it is served no more.
    ///
    /// - Parameter id: `DeviceInstance.id`.
    public func revoke(_ id: String) async throws {
        guard let request = EnrolmentRequest.revocation(atDevices: devices, of: id) else {
            throw EnrolmentFailure.instanceMalformed
        }
        let answer = try await prove(request, isIdempotent: true)
        guard answer.status == 204 else { throw EnrolmentFailure(answer, .revocation) }
    }

    private func prove(_ request: EnrolmentRequest, isIdempotent: Bool) async throws -> EnrolmentAnswer {
        let (send, devices) = (send, devices)
        return try await client.perform(
            request.attested(), isIdempotent: isIdempotent,
            fetchChallenge: { try await send(EnrolmentRequest(.challenge, atDevices: devices)).statements },
            send: { fields in
                let answer = try await send(request.proven(by: fields))
                return (answer.statements, answer)
            })
    }
}

extension EnrolmentFailure {
    /// The failure for an answer that is not the expected one.
    fileprivate init(_ answer: EnrolmentAnswer, _ endpoint: EnrolmentRequest.Endpoint) {
        let refusal = answer.refusal
        self =
            answer.status < 300
            ? .answerUnreadable(endpoint) : .refused(refusal, advice: refusal.advice(for: endpoint))
    }
}

/// A device in the list of its user.
public struct DeviceInstance: Equatable, Sendable {
    /// The hardware key's id in base64url, for `DeviceClient.revoke`.
    public let id: String
    /// `ios` or `android`.
    public let platform: String
    public let app: String
    /// `ACTIVE`, `REVOKED` or `PENDING`.
    public let status: String
    /// The time of registration, in seconds since 1970.
    public let createdAt: Int64
    /// Whether it is the device that asked.
    public let isCurrent: Bool
}

/// The posture that the service has recorded.
public struct AttestedPosture: Equatable, Sendable {
    /// The answer: a JSON object whose member `posture` has the facts.
    public let json: [UInt8]
    /// A token about this posture for other services, if the service issues any.
    public let deviceToken: String?
}
