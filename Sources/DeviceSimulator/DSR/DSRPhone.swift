public import Cryptography
internal import Encoding
internal import TrustClient
internal import Vocabulary

/// What gematik's apps make with the keys of a phone.
public struct DSRPhone {
    private let device: DeviceDirectory
    private let platform: any SimulatedPlatform
    private let library: LibraryContext

    public init(_ device: DeviceDirectory, _ platform: any SimulatedPlatform, _ library: LibraryContext) {
        self.device = device
        self.platform = platform
        self.library = library
    }

    // MARK: - Registration

    /// Attests the hardware key, and returns the registration token.
    ///
    /// - Parameters:
    ///   - nonce: As received: base64.
    ///   - now: In seconds since 1970.
    public func registration(nonce: String, card: SoftwareCard, now: Int64) throws -> String {
        let (raw, keyID) = (try bytes(of: nonce), try platform.makeKey().keyID)
        let key = try device.privateKeyToBind(library)
        let subject = try device.keyID(of: key, library)
        let request = try certificationRequest(of: key, password: Base64.encode(try hash(raw, "CSR_MTLS")))
        let evidence: KeyAttestation
        if device.appID.isAndroid {
            evidence = try platform.attest(keyID, clientDataHash: try hash(raw, "KEYPAIR_MTLS"))
        } else {
            let challenge = try hash(raw, "INTEGRITY") + subject.bytes
            evidence = try platform.attest(keyID, clientDataHash: library.sha256(of: challenge.span).bytes)
        }
        let claims = claims(subject, nonce, now) { claims in
            claims.member("csr", Base64.encode(request))
            switch evidence {
            case .appAttest(let attestation):
                claims.member("keyId", keyID.base64)
                claims.member("attestation", Base64.encode(attestation))
            case .certificates(let chain): write(chain, to: &claims)
            }
        }
        return try card.sign(claims)
    }

    /// Stores the certificate that the service has issued.
    ///
    /// - Parameter certificate: In DER.
    public func keep(certificate: [UInt8]) throws { try device.keep(chain: [certificate], library) }

    private func claims(
        _ subject: KeyID, _ nonce: String, _ now: Int64, _ further: (inout JSONWriter) -> Void
    ) -> [UInt8] {
        JSONWriter.object { claims in
            claims.member("iss", "TrustSDK_1.0")
            claims.member("sub", subject.base64)
            claims.member("iat", now)
            claims.member("type", device.appID.isAndroid ? "ANDROID" : "IOS")
            claims.member("nonce", nonce)
            further(&claims)
        }
    }

    private func write(_ chain: [[UInt8]], to claims: inout JSONWriter) {
        claims.member("attestCertChain", chain.map { Base64.encode($0) })
        claims.member("packageName", device.appID.package)
    }

    /// Returns a PKCS #10 request (RFC 2986), whose subject is a challenge password.
    private func certificationRequest(of key: PrivateKey, password: String) throws -> [UInt8] {
        guard let point = key.publicKey.uncompressedPoint else { throw SimulatorError("the key is not on P-256") }
        let identifier: [UInt8] = [0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x07]
        let name = DERWriter.sequence(
            DERWriter.set(DERWriter.sequence(identifier, DERWriter.item([0x0c], Array(password.utf8)))))
        let algorithm: [UInt8] = [
            0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01,
            0x07,
        ]
        let publicKey = DERWriter.sequence(DERWriter.sequence(algorithm), DERWriter.item([0x03], [0] + point))
        let content = DERWriter.sequence(DERWriter.integer([0]), name, publicKey, DERWriter.explicit(0, []))
        let signature = try key.sign(digest: library.sha256(of: content.span), library)
        let withSHA256: [UInt8] = [0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02]
        return DERWriter.sequence(content, DERWriter.sequence(withSHA256), DERWriter.item([0x03], [0] + signature))
    }

    // MARK: - Attestation

    /// Attests the phone's state, and returns the attestation token.
    public func attestation(nonce: String, now: Int64) throws -> String {
        let challenge = try hash(try bytes(of: nonce), "1")
        let key = try PrivateKey(pem: SimulatorFile.read(device.certificateKeyPath), library)
        let subject = try device.keyID(of: key, library)
        guard
            let certificate = try Certificate.all(inPEM: SimulatorFile.read(device.certificatePath), library).first
        else { throw SimulatorError("\(device.certificatePath) contains no certificate") }
        let evidence: KeyAttestation
        if let keystore = platform as? SimulatedKeystore {
            evidence = .certificates(try keystore.attestNewKey(challenge: challenge))
        } else if let attestor = platform as? SimulatedAttestor {
            let hash = try library.sha256(of: (challenge + subject.bytes).span).bytes
            let hardwareKey = try device.keyID(of: device.hardwareKey(library), library)
            evidence = .appAttest(try attestor.assertion(by: hardwareKey, clientDataHash: hash))
        } else {
            throw SimulatorError("the platform cannot attest again")
        }
        let claims = claims(subject, nonce, now) { claims in
            switch evidence {
            case .appAttest(let assertion): claims.member("assertion", Base64.encode(assertion))
            case .certificates(let chain): write(chain, to: &claims)
            }
            claims.object("deviceAttributes", keepsEmpty: true) { _ in }
        }
        return try DSRToken.sign(claims, algorithm: "ES256", certificate: certificate.der(), key, library)
    }

    /// Returns a random PKCE code verifier (RFC 7636 section 4.1).
    public func codeVerifier() throws -> String { Base64URL.encode(try library.randomBytes(32)) }

    /// Returns the code challenge of a verifier, by the method S256.
    public func codeChallenge(of verifier: String) throws -> String {
        Base64URL.encode(try library.sha256(of: Array(verifier.utf8).span).bytes)
    }

    private func bytes(of nonce: String) throws -> [UInt8] {
        guard let bytes = Base64.decode(nonce) else { throw SimulatorError("the nonce is not base64") }
        return bytes
    }

    private func hash(_ nonce: [UInt8], _ purpose: String) throws -> [UInt8] {
        try library.sha256(of: (nonce + Array(purpose.utf8)).span).bytes
    }
}
