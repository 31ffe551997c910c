internal import Encoding

/// A request to the enrolment service. It needs TLS that authenticates the server.
public struct EnrolmentRequest: Equatable, Sendable {
    public enum Endpoint: String, CaseIterable, Sendable {
        case nonce
        case initialization = "instance-initialization"
        case keyBinding = "key-binding"
        // The following exist only at the listener for enrolled devices.
        case challenge = ".well-known/attestgate/challenge"
        case attestation
        case instances
        case revocation = "instances/"
    }

    public let endpoint: Endpoint
    public let url: String
    /// Whether the request is sent with the device's client certificate. All others are sent without one.
    public let presentsCertificate: Bool
    /// JSON, in the bytes that a proof covers. Nil for a request without content.
    public let content: [UInt8]?
    var proof: ProofFields?

    private init(_ endpoint: Endpoint, _ url: String, presentsCertificate: Bool, _ content: [UInt8]?) {
        self.endpoint = endpoint
        self.url = url
        self.presentsCertificate = presentsCertificate
        self.content = content
    }

    /// - Parameter devices: The base URL of the listener for enrolled devices. Nil for the other one.
    init(
        _ endpoint: Endpoint, of service: EnrolmentServiceAddress, _ content: [UInt8]? = nil, at devices: String? = nil
    ) {
        self.init(
            endpoint, "\(devices ?? service.url)/\(endpoint.rawValue)", presentsCertificate: devices != nil, content)
    }

    public var method: String {
        switch endpoint {
        case .nonce, .challenge, .instances: "GET"
        case .initialization, .keyBinding, .attestation: "POST"
        case .revocation: "PATCH"
        }
    }

    /// The field lines to send: Content-Type with content, and those of a proof. Send each unchanged.
    public var fields: [(name: String, value: String)] { contentFields + (proof?.lines ?? []) }

    private var contentFields: [(name: String, value: String)] {
        content == nil ? [] : [("Content-Type", "application/json")]
    }
}

// MARK: - Requests of enrolled devices

extension EnrolmentRequest {
    /// Creates a request without content: `nonce`, `challenge` or `instances`.
    ///
    /// - Parameter devices: The base URL of the listener, without a slash at its end, here and below.
    package init(_ endpoint: Endpoint, atDevices devices: String) {
        self.init(endpoint, "\(devices)/\(endpoint.rawValue)", presentsCertificate: true, nil)
    }

    /// Creates a request for a new posture, which needs a proof.
    ///
    /// - Parameters:
    ///   - signals: What the app states about the phone: a JSON object.
    ///   - keyAttestation: On Android the certificates in DER, leaf first, of a key that was made for this nonce.
    /// - Throws: `signalsMalformed`.
    package static func attestation(
        atDevices devices: String, _ nonce: EnrolmentNonce, signals: [UInt8]? = nil, keyAttestation: [[UInt8]]? = nil
    ) throws(EnrolmentFailure) -> EnrolmentRequest {
        var content = Array(#"{"nonce":"\#(nonce.text)""#.utf8)
        if let signals {
            guard (try? JSONReader.object(in: signals, longest: signalsLimit)) != nil else { throw .signalsMalformed }
            content += Array(#","signals":"#.utf8) + signals
        }
        if let keyAttestation { content += Array(#","key_attestation":\#(keyAttestation.json)"#.utf8) }
        return EnrolmentRequest(
            .attestation, "\(devices)/attestation", presentsCertificate: true, content + [UInt8(ascii: "}")])
    }

    /// Length limit of signals in bytes.
    public static let signalsLimit = 4_096

    /// Creates a revocation, which needs a proof.
    ///
    /// - Parameter id: The device's id in the list.
    /// - Returns: nil for a text that is no id.
    package static func revocation(atDevices devices: String, of id: String) -> EnrolmentRequest? {
        guard Base64URL.decode(id)?.count == 32 else { return nil }
        return EnrolmentRequest(
            .revocation, "\(devices)/instances/\(id)", presentsCertificate: true, Array(#"{"status":"REVOKED"}"#.utf8))
    }

    /// The request as its proof covers it.
    ///
    /// - Throws: `RequestFault`, which a URL that `EnrolmentServiceAddress` accepts does not cause.
    func attested() throws -> AttestedRequest {
        guard let target = RequestTarget(url: url) else { throw RequestFault.fieldName }
        return try AttestedRequest(
            method: method, target: target, fields: contentFields, content: content.map { .bytes($0) } ?? .none)
    }

    func proven(by proof: ProofFields) -> EnrolmentRequest {
        var request = self
        request.proof = proof
        return request
    }
}
