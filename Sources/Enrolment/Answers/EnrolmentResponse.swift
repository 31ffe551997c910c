public import Cryptography
internal import Foundation
internal import HTTP
public import Vocabulary

/// What an enrolment endpoint answers, ready to be written.
public struct EnrolmentResponse: Equatable, Sendable {
    public struct Field: Equatable, Sendable {
        public let name: String
        public let value: String
    }

    public let status: UInt16
    /// JSON, or nothing.
    public let content: [UInt8]

    private let further: [Field]

    /// Besides those that frame the content. Nothing here is for caches: nonces, certificates, verdicts of the moment.
    public var fields: [Field] {
        let noStore = Field(name: "Cache-Control", value: "no-store")
        let type = Field(name: "Content-Type", value: "application/json")
        return (content.isEmpty ? [noStore] : [noStore, type]) + further
    }

    private init(_ status: UInt16, _ content: String = "", further: [Field] = []) {
        self.status = status
        self.content = Array(content.utf8)
        self.further = further
    }

    /// `GET /nonce`. - Parameter nonce: base64url.
    public static func nonce(_ nonce: IssuedNonce) -> EnrolmentResponse {
        EnrolmentResponse(200, #"{"nonce":"\#(String(decoding: nonce.text, as: UTF8.self))"}"#)
    }

    /// `POST /instance-initialization`.
    public static var initialized: EnrolmentResponse { EnrolmentResponse(204) }

    /// `POST /key-binding`.
    public static func bound(_ issued: IssuedClientCertificate) -> EnrolmentResponse {
        let chain = issued.chain.map { #""\#($0)""# }.joined(separator: ",")
        return EnrolmentResponse(200, #"{"certificate_chain":[\#(chain)],"expires_at":\#(issued.expiresAt)}"#)
    }

    /// A refusal by any endpoint. What went wrong inside of the service is for its log.
    public static func refusal(_ fault: EnrolmentFault) -> EnrolmentResponse {
        let row = fault.error.row
        let description = fault.error.isOurs ? "\(row.sentence)" : "\(row.sentence) Here: \(fault.reason)."
        return refusal(row.status, row.code, description, retryAfter: fault.retryAfter)
    }

    /// A refusal before any endpoint has looked at the content.
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

    /// Our own sentences are ASCII without controls, but may quote (RFC 8259 section 7).
    private static func escaped(_ text: String) -> String {
        var escaped = ""
        for scalar in text.unicodeScalars {
            if scalar == "\"" || scalar == "\\" { escaped.unicodeScalars.append("\\") }
            escaped.unicodeScalars.append(scalar)
        }
        return escaped
    }
}

/// A certificate for a bound key, as the client gets it.
public struct IssuedClientCertificate: Equatable, Sendable {
    /// Base64 of DER, the leaf first, then the GMS CA.
    public let chain: [String]
    /// When the first of the chain expires, in seconds since 1970.
    public let expiresAt: Int64
    /// The leaf's serial number in upper-case hexadecimal.
    public let serial: String
}

/// How the GMS CA issues certificates for bound keys: ECDSA on P-256, for TLS clients, `urn:attestgate:device:<key id>` as
/// the one name, a random serial of 128 bits, and no word about a person.
///
/// Holds the CA's key; belongs to the thread of its library context.
public struct ClientCertificateIssue {
    /// The same in every certificate: who it is for is the alternative name's to say.
    static let commonName = "AttestGate device"
    /// What a lifetime may be, in seconds: a minute to a year.
    public static let lifetimes: ClosedRange<Int64> = 60...31_536_000
    /// Thirty days.
    public static let defaultLifetime: Int64 = 2_592_000

    private let issuer: CertificateIssuer
    private let lifetime: Int64
    private let library: LibraryContext

    /// - Parameter lifetime: in seconds, one of `lifetimes`. Certificates end with the CA's own at the latest.
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

    /// Chooses serial number and end of a certificate, before its key is bound: the registry writes both down with the
    /// binding, so that every certificate there can be is known to it, and can be revoked.
    ///
    /// - Parameter now: in seconds since 1970.
    public func plan(now: Int64) throws(CryptographyError) -> PlannedClientCertificate {
        guard let end = issuer.certificate.notAfter, end > now else {
            throw CryptographyError(doing: "issue certificates: the CA's own has expired")
        }
        return PlannedClientCertificate(serial: try library.randomSerial(), notAfter: min(now + lifetime, end))
    }

    /// Issues a certificate. To be called when the binding is durable.
    ///
    /// - Parameters:
    ///   - planned: what the registry has written down.
    ///   - point: the bound key: 65 bytes, uncompressed.
    ///   - device: the key id of the device's hardware key.
    public func issue(
        _ planned: PlannedClientCertificate, forKey point: [UInt8], device: KeyID
    ) throws(CryptographyError) -> IssuedClientCertificate {
        let template = CertificateTemplate(
            purpose: .device(device), commonName: Self.commonName, end: .at(planned.notAfter), serial: planned.serial)
        let leaf = try issuer.issue(template, for: PublicKey(point: point.span, library))
        let chain = [try leaf.der(), try issuer.certificate.der()]
        return IssuedClientCertificate(
            chain: chain.map { Data($0).base64EncodedString() }, expiresAt: planned.notAfter, serial: leaf.serial)
    }
}

/// A certificate that is going to be issued.
public struct PlannedClientCertificate: Equatable, Sendable {
    public let serial: CertificateSerial
    /// In seconds since 1970; no later than the CA's own end.
    public let notAfter: Int64
}

/// Why a request is refused before any endpoint has looked at its content. Answered with codes of the one table, and with
/// the status that HTTP has for it.
enum EnrolmentRequestFault: Error, Equatable, Sendable {
    case malformed(MessageFault)
    case endpointUnknown
    /// - allowed: the value of Allow.
    case methodRefused(allowed: String)
    case queryRefused
    /// Content where there is none to be.
    case contentRefused
    case mediaTypeRefused
    /// - limit: in bytes.
    case contentTooLarge(limit: Int)
    case timeout
    /// The client's address has asked too often. - retryAfter: in seconds.
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

    /// One sentence, for the developer of the client.
    var description: String {
        switch self {
        case .malformed(let fault): "The request is refused: \(fault.reason)."
        case .endpointUnknown: "There is no such endpoint."
        case .methodRefused(let allowed): "The endpoint allows only \(allowed)."
        case .queryRefused: "The endpoint accepts no query."
        case .contentRefused: "The endpoint accepts no content."
        case .mediaTypeRefused: "The content must be application/json."
        case .contentTooLarge(let limit): "The content is larger than \(limit) bytes."
        case .timeout: "The request did not arrive in time."
        case .tooManyRequests: "Too many requests from this address: try again later."
        }
    }
}
