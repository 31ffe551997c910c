/// Enrols over whatever HTTP library the app has: the first time, to renew the certificate, and to rotate its key.
///
/// ```swift
/// let client = EnrolmentClient(attestor: AppAttest(), clock: { Int64(Date().timeIntervalSince1970) })
/// let certificate = try await client.enrol(
///     EnrolmentRecord(decoding: stored) ?? EnrolmentRecord(service: service), key: key,
///     save: { record in try store(record.encoded()) }, send: { request in try await session.answer(to: request) })
/// ```
///
/// One enrolment at a time: two would spend each other's nonces and keys.
public struct EnrolmentClient<Platform: Attestor>: Sendable {
    private let attestor: Platform
    private let form: ClientDataForm
    private let clock: @Sendable () -> Int64

    /// - Parameter clock: the time in seconds since 1970.
    public init(attestor: Platform, form: ClientDataForm = .nonceAndTag, clock: @escaping @Sendable () -> Int64) {
        self.attestor = attestor
        self.form = form
        self.clock = clock
    }

    /// Continues from the record to the certificate.
    ///
    /// - Parameters:
    ///   - key: the bound one, to renew its certificate; a new one, to rotate. The same until this has returned once.
    ///   - save: stores the record, durably, before it returns.
    ///   - send: sends the request. Throws if there was no response; what was reached is saved.
    /// - Throws: `EnrolmentFailure`, and what the closures and the keys throw.
    public func enrol(
        _ record: EnrolmentRecord, key: some CertificateKey, admissionToken: String? = nil,
        save: @Sendable (EnrolmentRecord) async throws -> Void,
        send: @Sendable (EnrolmentRequest) async throws -> EnrolmentAnswer
    ) async throws -> EnrolledCertificate {
        var exchange = EnrolmentExchange(record, point: key.point, form: form, admissionToken: admissionToken)
        var saved = record
        var action = exchange.begin()
        while true {
            if exchange.record != saved {
                try await save(exchange.record)
                saved = exchange.record
            }
            do {
                switch action {
                case .makeKey: action = exchange.keyMade(try await attestor.generateKey())
                case .attest(let keyID, let hash):
                    action = exchange.attested(try await attestor.attestation(of: keyID, clientDataHash: hash))
                case .assert(let keyID, let hash):
                    let assertion = try await attestor.assertion(by: keyID, clientDataHash: hash)
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

/// Where an app enrols.
public struct EnrolmentServiceAddress: Hashable, Sendable {
    /// Of the endpoints; without a slash at its end.
    public let url: String
    /// The URL the service knows itself by: the audience of key-binding tokens. The service compares it byte by byte.
    public let provider: String

    /// - Parameters:
    ///   - url: `https://host[:port][/path]`, in unreserved characters of URLs and `:/[]%`; a slash at its end is taken off.
    ///   - provider: nil if it is the same.
    public init?(url: String, provider: String? = nil) {
        let url = url.hasSuffix("/") ? String(url.dropLast()) : url
        guard Self.isAdmitted(url), Self.isAdmitted(provider ?? url) else { return nil }
        self.url = url
        self.provider = provider ?? url
    }

    /// What the service itself admits as its URL.
    private static func isAdmitted(_ text: String) -> Bool {
        let scheme = "https://"
        return text.utf8.starts(with: scheme.utf8) && text.utf8.count > scheme.utf8.count && text.utf8.count <= 1_024
            && text.utf8.last != UInt8(ascii: "/") && text.utf8.allSatisfy(admitted.contains)
    }

    private static let admitted = Set(
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~:/[]%".utf8)
}

/// A request of enrolment: to be sent over TLS that authenticates the server, without a client certificate.
public struct EnrolmentRequest: Equatable, Sendable {
    public enum Endpoint: String, CaseIterable, Sendable {
        case nonce
        case initialization = "instance-initialization"
        case keyBinding = "key-binding"
    }

    public let endpoint: Endpoint
    public let service: EnrolmentServiceAddress
    /// JSON, to be sent with `Content-Type: application/json`; nil for a request without content.
    public let content: [UInt8]?

    init(_ endpoint: Endpoint, of service: EnrolmentServiceAddress, _ content: [UInt8]? = nil) {
        self.endpoint = endpoint
        self.service = service
        self.content = content
    }

    public var method: String { content == nil ? "GET" : "POST" }
    public var url: String { "\(service.url)/\(endpoint.rawValue)" }
}
