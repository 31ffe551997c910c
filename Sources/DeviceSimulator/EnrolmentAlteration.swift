internal import Cryptography
internal import Encoding
internal import Foundation
public import TrustClient

/// A single fault in an enrolment. Each leads to another refusal of the service.
public enum EnrolmentAlteration: String, CaseIterable, Sendable {
    // Instance initialization.
    /// A nonce that the service never issued, with an attestation for it.
    case nonce
    /// The attestation is for other client data.
    case clientData = "client-data"
    /// The tag of another key.
    case tag
    /// The attestation is missing.
    case attestation
    /// An unknown member.
    case member
    // Instance initialization of an Android phone. Each has the name of the step that refuses it.
    /// A certificate is cut off.
    case attestationCertificates = "attestation-certificates"
    /// Another root.
    case attestationRoot = "attestation-root"
    /// Another key has signed the leaf.
    case attestationSignatures = "attestation-signatures"
    /// The chain is one certificate longer.
    case attestationProvisioning = "attestation-provisioning"
    /// A certificate that is not valid yet.
    case attestationValidity = "attestation-validity"
    /// Two key descriptions.
    case attestationKeyDescription = "attestation-key-description"
    /// A key in software.
    case attestationSecurityLevel = "attestation-security-level"
    /// An imported key.
    case attestationKey = "attestation-key"
    /// An app that another certificate signed.
    case attestationApplication = "attestation-application"
    /// An unlocked bootloader.
    case attestationBoot = "attestation-boot"
    /// The patch level of January 2010.
    case attestationPatchLevel = "attestation-patch-level"
    /// A serial number of a revoked key.
    case attestationRevocation = "attestation-revocation"
    // Key binding.
    /// A nonce that the service never issued, signed by the hardware key.
    case bindingNonce = "binding-nonce"
    case algorithm = "alg"
    case keyID = "kid"
    case type = "typ"
    case issuer = "iss"
    case audience = "aud"
    /// A time of issue an hour ago.
    case issuedAt = "iat"
    /// An expiry an hour after `iat`.
    case expiry = "exp"
    /// An instance that was not initialized.
    case instance
    /// A changed bit of the assertion's signature.
    case hardwareSignature = "hardware-signature"
    /// An unknown claim.
    case claim
    /// A changed bit of the token's signature.
    case signature
    // Key binding of an Android phone.
    /// The counter is missing.
    case counter
    /// A counter of 0, signed by the hardware key.
    case counterZero = "counter-zero"
    /// The last counter again, signed by the hardware key.
    case counterReplayed = "counter-replayed"
    /// An authenticator data, as of an iPhone.
    case keyAttestation = "key-attestation"
    /// The attestation of another certificate key.
    case certificateKeyAttestation = "mtls-key"
    /// The attestation of the certificate key is for other client data.
    case certificateKeyChallenge = "mtls-challenge"
    /// The attestation of the certificate key is missing.
    case certificateKeyUnattested = "mtls-attestation"

    /// The request that is altered.
    public var endpoint: EnrolmentRequest.Endpoint {
        switch self {
        case .nonce, .clientData, .tag, .attestation, .member, .attestationCertificates, .attestationRoot,
            .attestationSignatures, .attestationProvisioning, .attestationValidity, .attestationKeyDescription,
            .attestationSecurityLevel, .attestationKey, .attestationApplication, .attestationBoot,
            .attestationPatchLevel, .attestationRevocation:
            .initialization
        case .bindingNonce, .algorithm, .keyID, .type, .issuer, .audience, .issuedAt, .expiry, .instance,
            .hardwareSignature, .claim, .signature, .counter, .counterZero, .counterReplayed, .keyAttestation,
            .certificateKeyAttestation, .certificateKeyChallenge, .certificateKeyUnattested:
            .keyBinding
        }
    }

    /// Whether only an Android phone sends what is altered.
    public var isForAndroid: Bool {
        switch self {
        case .nonce, .clientData, .tag, .attestation, .member, .bindingNonce, .algorithm, .keyID, .type, .issuer,
            .audience, .issuedAt, .expiry, .instance, .hardwareSignature, .claim, .signature:
            false
        default: true
        }
    }

    /// Whether the nonce of the altered request is replaced.
    public var replacesNonce: Bool { self == .nonce || self == .bindingNonce }

    /// The answer that replaces the service's answer with a nonce.
    public static var foreignNonce: EnrolmentAnswer {
        let nonce = Base64URL.encode((0..<32).map { _ in UInt8.random(in: 0...255) })
        return EnrolmentAnswer(status: 200, date: nil, content: Array(#"{"nonce":"\#(nonce)"}"#.utf8))
    }

    /// Returns the hash to attest instead of this one.
    public func clientDataHash(_ hash: [UInt8]) -> [UInt8] {
        self == .clientData ? [hash[0] ^ 1] + hash.dropFirst() : hash
    }

    /// Returns the altered content of the initialization.
    public func initialization(_ content: [UInt8]) throws -> [UInt8] {
        try Self.object(content) { body in
            switch self {
            case .tag: body["hardware_key_tag"] = Base64URL.encode([UInt8](repeating: 7, count: 32))
            case .attestation: body["key_attestation"] = body["key_attestation"] is String ? "AAAA" : ["AAAA"]
            case .member: body["unknown"] = 1
            default: break
            }
        }
    }

    /// Returns the altered content of the key binding.
    ///
    /// - Parameters:
    ///   - signingInput: The correct header and claims.
    ///   - sign: Makes an ECDSA signature in DER.
    public func keyBinding(signingInput: [UInt8], sign: ([UInt8]) throws -> [UInt8]) throws -> [UInt8] {
        let parts = signingInput.split(separator: UInt8(ascii: ".")).map(Array.init)
        let header = try Self.object(Self.decoded(parts[0])) { header in
            switch self {
            case .algorithm: header["alg"] = "none"
            case .keyID: header["kid"] = Base64URL.encode([UInt8](repeating: 7, count: 32))
            case .type: header["typ"] = "JWT"
            default: break
            }
        }
        let claims = try Self.object(Self.decoded(parts[1])) { claims in
            let issuedAt = claims["iat"] as? Int ?? 0
            switch self {
            case .issuer: claims["iss"] = "https://other.example/instance/x"
            case .audience: claims["aud"] = "https://other.example"
            case .issuedAt: (claims["iat"], claims["exp"]) = (issuedAt - 3_600, issuedAt - 3_300)
            case .expiry: claims["exp"] = issuedAt + 3_600
            case .instance: claims["hardware_key_tag"] = Base64URL.encode([UInt8](repeating: 7, count: 32))
            case .hardwareSignature:
                var signature = Self.decoded(Array((claims["hardware_signature"] as? String ?? "").utf8))
                if let last = signature.popLast() { signature.append(last ^ 1) }
                claims["hardware_signature"] = Base64URL.encode(signature)
            case .claim: claims["unknown"] = 1
            case .counter: claims["counter"] = nil
            case .keyAttestation: claims["key_attestation"] = Base64URL.encode([UInt8](repeating: 7, count: 37))
            case .certificateKeyUnattested: claims["mtls_key_attestation"] = nil
            default: break
            }
        }
        let input = Base64URL.encode(header) + "." + Base64URL.encode(claims)
        let encoded = try sign(Array(input.utf8))
        guard var signature = ECDSASignature.fixedWidth(der: encoded.span) else {
            throw SimulatorError("a signature is no ECDSA-Sig-Value")
        }
        if self == .signature { signature[63] ^= 1 }
        return Array(#"{"assertion":"\#(input).\#(Base64URL.encode(signature))"}"#.utf8)
    }

    // MARK: - Helpers

    private static func object(_ bytes: [UInt8], _ change: (inout [String: Any]) -> Void) throws -> [UInt8] {
        guard var object = try JSONSerialization.jsonObject(with: Data(bytes)) as? [String: Any] else {
            throw SimulatorError("an enrolment's content is no JSON object")
        }
        change(&object)
        return Array(
            try JSONSerialization.data(withJSONObject: object, options: [.sortedKeys, .withoutEscapingSlashes]))
    }

    private static func decoded(_ text: [UInt8]) -> [UInt8] { Base64URL.decode(text.span) ?? [] }
}
