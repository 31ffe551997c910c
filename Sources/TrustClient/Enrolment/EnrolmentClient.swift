/// A client that enrols over the app's HTTP library: for the first time, to renew the certificate, and to rotate its
/// key.
///
/// ```swift
/// let client = EnrolmentClient(attestor: AppAttest(), clock: { Int64(Date().timeIntervalSince1970) })
/// let certificate = try await client.enrol(
///     EnrolmentRecord(decoding: stored) ?? EnrolmentRecord(service: service), key: key,
///     newKey: { (try makeKey(), nil) }, save: { record in try store(record.encoded()) },
///     send: { request in try await session.answer(to: request) })
/// ```
///
/// One enrolment at a time: two would spend each other's nonces and keys.
public struct EnrolmentClient<Platform: Attestor>: Sendable {
    private let attestor: Platform
    private let form: ClientDataForm
    private let clock: @Sendable () -> Int64

    /// Creates a client. Run one enrolment at a time, because two would use each other's nonces and keys.
    ///
    /// - Parameter clock: Returns the time in seconds since 1970.
    public init(attestor: Platform, form: ClientDataForm = .nonceAndTag, clock: @escaping @Sendable () -> Int64) {
        self.attestor = attestor
        self.form = form
        self.clock = clock
    }

    /// Continues from the record until there is a certificate.
    ///
    /// - Parameters:
    ///   - key: The bound key to renew its certificate, or a new key to rotate. Use the same key until this function
    ///     has returned once, or has called `newKey`.
    ///   - newKey: Makes another certificate key to be used in place of `key` from now on, and stores its name durably.
    ///     The result has an admission token for it if the service requires one. It is called after the hardware key
    ///     was lost or refused, because the service may have bound `key` to it.
    ///   - devices: The base URL of the service's listener for enrolled devices, without a slash at its end: there bound
    ///     keys are renewed and rotated, with the client certificate. Nil without such a listener, or if the certificate
    ///     has expired.
    ///   - save: Stores the record durably before it returns.
    ///   - send: Sends the request. It throws if there was no response; the progress is saved.
    /// - Throws: `EnrolmentFailure`, and the errors of closures and keys.
    public func enrol<Key: CertificateKey>(
        _ record: EnrolmentRecord, key: Key, admissionToken: String? = nil, devices: String? = nil,
        newKey: @Sendable () async throws -> (key: Key, admissionToken: String?),
        save: @Sendable (EnrolmentRecord) async throws -> Void,
        send: @Sendable (EnrolmentRequest) async throws -> EnrolmentAnswer
    ) async throws -> EnrolledCertificate {
        var exchange = EnrolmentExchange(
            record, point: key.point, form: form, admissionToken: admissionToken, devices: devices)
        var saved = record
        var key = key
        var action = exchange.begin()
        while true {
            if exchange.record != saved {
                try await save(exchange.record)
                saved = exchange.record
            }
            do {
                switch action {
                case .makeKey: action = exchange.keyMade(try await attestor.generateKey())
                case .provideKey:
                    let made = try await newKey()
                    key = made.key
                    action = exchange.keyProvided(key.point, admissionToken: made.admissionToken)
                case .attest(let keyID, let hash):
                    action = exchange.attested(try await attestor.attestation(of: keyID, clientDataHash: hash))
                case .assert(let keyID, let data):
                    let assertion = try await attestor.assertion(by: keyID, clientDataHash: data.hash)
                    action = exchange.asserted(assertion, now: clock())
                case .sign(let message): action = exchange.signed(try await key.signature(over: message))
                case .send(let request): action = exchange.answered(try await send(request), now: clock())
                case .finish(let certificate): return certificate
                case .fail(let failure): throw failure
                }
            } catch let fault as AttestorFault {
                action = exchange.attestorFailed(fault)
            }
        }
    }
}

/// The address of an enrolment service.
public struct EnrolmentServiceAddress: Hashable, Sendable {
    /// The base URL of the endpoints, without a slash at its end.
    public let url: String
    /// The service's own URL: the audience of key-binding tokens. The service compares it byte by byte.
    public let provider: String

    /// Creates an address.
    ///
    /// - Parameters:
    ///   - url: `https://host[:port][/path]` of unreserved characters and `:/[]%`. A slash at its end is removed.
    ///   - provider: Nil if it equals `url`.
    public init?(url: String, provider: String? = nil) {
        let url = url.hasSuffix("/") ? String(url.dropLast()) : url
        guard Self.isAdmitted(url), Self.isAdmitted(provider ?? url) else { return nil }
        self.url = url
        self.provider = provider ?? url
    }

    /// Returns whether the service accepts the text as its URL.
    private static func isAdmitted(_ text: String) -> Bool {
        let scheme = "https://"
        return text.utf8.starts(with: scheme.utf8) && text.utf8.count > scheme.utf8.count && text.utf8.count <= 1_024
            && text.utf8.last != UInt8(ascii: "/") && text.utf8.allSatisfy(admitted.contains)
    }

    private static let admitted = Set(
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~:/[]%".utf8)
}
