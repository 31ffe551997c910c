public import Cryptography
internal import Encoding
internal import HTTP
internal import Registry
public import Vocabulary

/// The answer of an enrolment endpoint.
public struct EnrolmentResponse: Equatable, Sendable {
    public struct Field: Equatable, Sendable {
        public let name: String
        public let value: String
    }

    public let status: UInt16
    /// Empty if there is none.
    public let content: [UInt8]
    /// The media type of the content.
    private let type: String
    private let further: [Field]

    /// The fields except those about the content. Caching is forbidden, because answers have nonces, certificates and
    /// momentary verdicts.
    public var fields: [Field] {
        let noStore = Field(name: "Cache-Control", value: "no-store")
        let type = Field(name: "Content-Type", value: type)
        return (content.isEmpty ? [noStore] : [noStore, type]) + further
    }

    private init(
        _ status: UInt16, _ content: String = "", type: String = "application/json", further: [Field] = []
    ) {
        self.status = status
        self.type = type
        self.content = Array(content.utf8)
        self.further = further
    }

    /// The answer to `GET /nonce`, in base64url.
    public static func nonce(_ nonce: IssuedNonce) -> EnrolmentResponse {
        EnrolmentResponse(200, #"{"nonce":"\#(String(decoding: nonce.text, as: UTF8.self))"}"#)
    }

    /// The answer to `GET /.well-known/jwks.json`.
    static func deviceTokenKeys(_ set: [UInt8]) -> EnrolmentResponse {
        EnrolmentResponse(200, String(decoding: set, as: UTF8.self))
    }

    /// The answer to `POST /wallet-instance-attestations`.
    static func walletAttestation(_ attestation: String) -> EnrolmentResponse {
        json { $0.member("wallet_instance_attestation", attestation) }
    }

    /// The answer to `GET /.well-known/openid-federation`.
    static func federationStatement(_ statement: [UInt8]) -> EnrolmentResponse {
        EnrolmentResponse(200, String(decoding: statement, as: UTF8.self), type: "application/entity-statement+jwt")
    }

    /// The answer to `POST /instance-initialization`.
    public static var initialized: EnrolmentResponse { EnrolmentResponse(204) }

    /// The answer to `POST /key-binding`.
    ///
    /// - Parameter deviceToken: Nil if none is issued.
    public static func bound(_ issued: IssuedClientCertificate, deviceToken: String? = nil) -> EnrolmentResponse {
        json { object in
            object.member("certificate_chain", issued.chain)
            object.member("expires_at", issued.expiresAt)
            object.member("device_token", deviceToken)
        }
    }

    /// The answer to `GET /.well-known/attestgate/challenge`.
    static func challenge(_ acceptSignature: [UInt8]?) -> EnrolmentResponse {
        EnrolmentResponse(204, further: Self.field(acceptSignature))
    }

    private static func field(_ acceptSignature: [UInt8]?) -> [Field] {
        acceptSignature.map { [Field(name: "Accept-Signature", value: String(decoding: $0, as: UTF8.self))] } ?? []
    }

    /// The answer to `POST /attestation`.
    ///
    /// - Parameter deviceToken: Nil if none is issued.
    static func attested(_ posture: Posture, deviceToken: String?) -> EnrolmentResponse {
        json { object in
            object.object("posture") { posture.write(to: &$0) }
            object.member("device_token", deviceToken)
        }
    }

    /// The answer to `GET /instances`.
    ///
    /// - Parameter current: The device that asks.
    static func instances(_ devices: [Device], current: DeviceID) -> EnrolmentResponse {
        let objects = devices.map { device in
            JSONWriter.object { object in
                object.member("id", Base64URL.encode(device.identity.hardwareKey.bytes))
                object.member("platform", device.identity.platform.rawValue)
                object.member("app", device.identity.app.description)
                object.member("status", device.state.rawValue.uppercased())
                object.member("created_at", device.registeredAt)
                object.member("current", device.id == current)
            }
        }
        return EnrolmentResponse(200, "[\(objects.map { String(decoding: $0, as: UTF8.self) }.joined(separator: ","))]")
    }

    /// The answer to `PATCH /instances/{id}`.
    static var revoked: EnrolmentResponse { EnrolmentResponse(204) }

    private static func json(
        _ status: UInt16 = 200, further: [Field] = [], _ members: (inout JSONWriter) -> Void
    ) -> EnrolmentResponse {
        EnrolmentResponse(status, String(decoding: JSONWriter.object(members), as: UTF8.self), further: further)
    }

    // MARK: - The reference system

    /// The answer to `GET /nonce`, and to `POST /device-attestation`: a code.
    static func text(_ text: String) -> EnrolmentResponse {
        EnrolmentResponse(200, text, type: "text/plain;charset=UTF-8")
    }

    /// The answer to `POST /register-device`: the certificate alone.
    static func deviceRegistered(_ issued: IssuedClientCertificate) -> EnrolmentResponse {
        json(201) { $0.member("cert", issued.chain[0]) }
    }

    /// The answer to `POST /device-token`.
    static func deviceToken(_ token: String) -> EnrolmentResponse { json { $0.member("token", token) } }

    /// The answer to `GET /device-registrations`.
    ///
    /// - Parameter user: The person, as the client names it.
    static func deviceRegistrations(_ devices: [(Device, key: KeyID)], of user: String) -> EnrolmentResponse {
        let objects = devices.map { device, key in
            JSONWriter.object { object in
                object.member("userIdentifier", user)
                object.member("deviceIdentifier", Base64.encode(key.bytes))
                object.member("deviceType", device.identity.platform == .android ? "ANDROID" : "IOS")
                // gematik's app for iOS demands the fraction.
                object.member(
                    "createdAt", "\(InternetTime.text(of: device.registeredAt).dropLast()).000Z")
            }
        }
        return EnrolmentResponse(200, "[\(objects.map { String(decoding: $0, as: UTF8.self) }.joined(separator: ","))]")
    }

    /// The answer to `DELETE /device-registrations`.
    static var deregistered: EnrolmentResponse { EnrolmentResponse(204) }

    /// The answer of an endpoint of the reference system that refuses.
    ///
    /// - Parameter trace: The number of the refusal in the log, a UUID.
    static func dsrRefusal(_ fault: EnrolmentFault, trace: String) -> EnrolmentResponse {
        let error = DSRError(fault)
        let row = fault.error.row
        let isQuiet = fault.error.isOurs || { if case .denied = fault { true } else { false } }()
        let retry = fault.retryAfter.map { [Field(name: "Retry-After", value: "\($0)")] } ?? []
        return json(error.status, further: retry) { object in
            object.member("errorCode", error.code)
            object.member("description", isQuiet ? "\(row.sentence)" : fault.reason)
            object.member("traceId", trace)
        }
    }

    /// The answer of an endpoint that refuses. Only the log has details of internal faults.
    ///
    /// - Parameter acceptSignature: What a proof must cover, with a new challenge, for a denial that asks for one.
    public static func refusal(_ fault: EnrolmentFault, acceptSignature: [UInt8]? = nil) -> EnrolmentResponse {
        let row = fault.error.row
        guard case .denied(let denial, _, let component) = fault else {
            let description = fault.error.isOurs ? "\(row.sentence)" : "\(row.sentence) Here: \(fault.reason)."
            return refusal(row.status, row.code, description, retryAfter: fault.retryAfter)
        }
        // As the gateway, which gives details to its log only.
        let missing = component.map { " Missing: \($0)." } ?? ""
        var further: [Field] = []
        if denial.asksForProof {
            further.append(Field(name: "WWW-Authenticate", value: "Signature realm=\"attestgate\""))
            further += field(acceptSignature)
        }
        return refusal(
            row.status, row.code, "\(row.sentence)\(missing)", retryAfter: fault.retryAfter, further: further)
    }

    /// The answer to a request that was refused before its content was parsed.
    static func refusal(_ fault: EnrolmentRequestFault) -> EnrolmentResponse {
        let allowed = fault.allowed.map { [Field(name: "Allow", value: $0)] } ?? []
        return refusal(
            fault.status, fault.error.row.code, fault.description, retryAfter: fault.retryAfter, further: allowed)
    }

    private static func refusal(
        _ status: UInt16, _ code: StaticString, _ description: String, retryAfter: Int?, further: [Field] = []
    ) -> EnrolmentResponse {
        let retry = retryAfter.map { [Field(name: "Retry-After", value: "\($0)")] } ?? []
        return EnrolmentResponse(
            status, #"{"error":"\#(code)","error_description":"\#(escaped(description))"}"#, further: further + retry)
    }

    /// Escapes quotes (RFC 8259 section 7). The sentences are ASCII without control characters.
    private static func escaped(_ text: String) -> String {
        var escaped = ""
        for scalar in text.unicodeScalars {
            if scalar == "\"" || scalar == "\\" { escaped.unicodeScalars.append("\\") }
            escaped.unicodeScalars.append(scalar)
        }
        return escaped
    }
}

/// A client certificate for a bound key, as sent to the client.
public struct IssuedClientCertificate: Equatable, Sendable {
    /// The chain in base64 of DER: the leaf, then the GMS CA.
    public let chain: [String]
    /// The earliest expiry in the chain, in seconds since 1970.
    public let expiresAt: Int64
    /// The leaf's serial number in upper-case hexadecimal.
    public let serial: String
    /// SHA-256 of the leaf, 32 bytes.
    public let thumbprint: [UInt8]
}

/// The issuing of client certificates by the GMS CA.
///
/// They use ECDSA on P-256, are for TLS clients, and have a random serial of 128 bits. Their only name is
/// `urn:attestgate:device:<key id>`. They contain nothing about a person. Holds the CA's key, and belongs to the thread
/// of its library context.
public struct ClientCertificateIssue {
    /// The common name of all certificates. The subject alternative name identifies the device.
    static let commonName = "AttestGate device"
    /// The permitted lifetimes in seconds: a minute to a year.
    public static let lifetimes: ClosedRange<Int64> = 60...31_536_000
    /// The default lifetime in seconds: thirty days.
    public static let defaultLifetime: Int64 = 2_592_000

    private let issuer: CertificateIssuer
    private let lifetime: Int64
    private let library: LibraryContext

    /// Creates an issuer.
    ///
    /// - Parameter lifetime: One of `lifetimes`, in seconds. Certificates end no later than the CA's own.
    public init(
        _ issuer: CertificateIssuer, lifetime: Int64 = defaultLifetime, _ library: LibraryContext
    ) throws(CryptographyError) {
        guard Self.lifetimes.contains(lifetime) else {
            throw CryptographyError(doing: "issue certificates for \(lifetime) seconds")
        }
        self.issuer = issuer
        self.lifetime = lifetime
        self.library = library
    }

    /// Chooses the serial number and expiry of a certificate before its key is bound. The registry stores both with the
    /// binding, so that it can revoke every issued certificate.
    ///
    /// - Parameter now: The time in seconds since 1970.
    public func plan(now: Int64) throws(CryptographyError) -> PlannedClientCertificate {
        guard let end = issuer.certificate.notAfter, end > now else {
            throw CryptographyError(doing: "issue certificates: the CA's own has expired")
        }
        return PlannedClientCertificate(serial: try library.randomSerial(), notAfter: min(now + lifetime, end))
    }

    /// Issues a certificate. Call it after the binding is durable.
    ///
    /// - Parameters:
    ///   - planned: The serial number and expiry that the registry has stored.
    ///   - point: The bound key: the uncompressed point, 65 bytes.
    ///   - device: The key id of the device's hardware key.
    public func issue(
        _ planned: PlannedClientCertificate, forKey point: [UInt8], device: KeyID
    ) throws(CryptographyError) -> IssuedClientCertificate {
        let template = CertificateTemplate(
            purpose: .device(device), commonName: Self.commonName, end: .at(planned.notAfter), serial: planned.serial)
        let leaf = try issuer.issue(template, for: PublicKey(point: point.span, library))
        let certificate = try leaf.der()
        let chain = [certificate, try issuer.certificate.der()]
        return IssuedClientCertificate(
            chain: chain.map { Base64.encode($0) }, expiresAt: planned.notAfter, serial: leaf.serial,
            thumbprint: try library.sha256(of: certificate.span).bytes)
    }
}

/// The serial number and expiry of a certificate to be issued.
public struct PlannedClientCertificate: Equatable, Sendable {
    public let serial: CertificateSerial
    /// The time of expiry in seconds since 1970, no later than the CA's own.
    public let notAfter: Int64
}

/// The reason why a request is refused before its content is parsed. The answer has a code of the table and the
/// matching HTTP status.
enum EnrolmentRequestFault: Error, Equatable, Sendable {
    case malformed(MessageFault)
    case endpointUnknown
    /// The method is not permitted.
    ///
    /// - allowed: The value of Allow.
    case methodRefused(allowed: String)
    case queryRefused
    /// The request has content where none is permitted.
    case contentRefused
    /// - wanted: The media type of the endpoint.
    case mediaTypeRefused(String)
    /// The content is too long.
    ///
    /// - limit: In bytes.
    case contentTooLarge(limit: Int)
    case timeout
    /// The client's address has sent too many requests.
    ///
    /// - retryAfter: In seconds.
    case tooManyRequests(retryAfter: Int)

    var status: UInt16 {
        switch self {
        case .malformed(let fault):
            switch fault.kind {
            case .malformed, .fieldRefused: 400
            case .targetTooLong: 414
            case .headTooLarge: 431
            }
        case .endpointUnknown: 404
        case .methodRefused: 405
        case .queryRefused, .contentRefused: 400
        case .mediaTypeRefused: 415
        case .contentTooLarge: 413
        case .timeout: 408
        case .tooManyRequests: 503
        }
    }

    var error: EnrolmentError {
        switch self {
        case .endpointUnknown: .notFound
        case .tooManyRequests: .temporarilyUnavailable
        case .malformed, .methodRefused, .queryRefused, .contentRefused, .mediaTypeRefused, .contentTooLarge, .timeout:
            .badRequest
        }
    }

    var allowed: String? {
        if case .methodRefused(let allowed) = self { allowed } else { nil }
    }

    var retryAfter: Int? {
        if case .tooManyRequests(let seconds) = self { seconds } else { nil }
    }

    /// A sentence for the developer of the client.
    var description: String {
        switch self {
        case .malformed(let fault): "The request is refused: \(fault.reason)."
        case .endpointUnknown: "There is no such endpoint."
        case .methodRefused(let allowed): "The endpoint allows only \(allowed)."
        case .queryRefused: "The endpoint accepts no query."
        case .contentRefused: "The endpoint accepts no content."
        case .mediaTypeRefused(let wanted): "The content must be \(wanted)."
        case .contentTooLarge(let limit): "The content is larger than \(limit) bytes."
        case .timeout: "The request did not arrive in time."
        case .tooManyRequests: "Too many requests from this address: try again later."
        }
    }
}
