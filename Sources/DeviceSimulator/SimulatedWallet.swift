internal import Cryptography
internal import Encoding

/// The wallet of a simulated phone: a key in `wallet-key.pem` of its directory, for which it obtains client attestations.
public struct SimulatedWallet {
    private let device: DeviceDirectory
    private let library: LibraryContext
    private let key: P256SigningKey
    private let (x, y): (String, String)
    private let thumbprint: String

    /// Opens the wallet, whose key is made if it is missing.
    public init(_ device: DeviceDirectory) throws {
        self.device = device
        library = try LibraryContext()
        let path = device.path + "/wallet-key.pem"
        if !SimulatorFile.exists(path) {
            try SimulatorFile.create(path, PrivateKey.generateP256(library).pem())
        }
        key = try P256SigningKey(PrivateKey(pem: SimulatorFile.read(path), library), library)
        (x, y) = (Base64URL.encode(Array(key.point[1..<33])), Base64URL.encode(Array(key.point[33...])))
        // RFC 7638: members in the order of their names, without white space.
        let canonical = Array(#"{"crv":"P-256","kty":"EC","x":"\#(x)","y":"\#(y)"}"#.utf8)
        thumbprint = Base64URL.encode(try library.sha256(of: canonical.span).bytes)
    }

    /// Returns the content of `POST /wallet-instance-attestations`.
    ///
    /// - Parameters:
    ///   - nonce: A nonce of the enrolment service.
    ///   - now: The time in seconds since 1970.
    public func request(nonce: String, now: Int64) throws -> [UInt8] {
        let data = Array(#"{"challenge":"\#(nonce)","jwk_thumbprint":"\#(thumbprint)"}"#.utf8)
        let hardwareKey = try device.hardwareKey(library)
        let tag: [UInt8]
        let signature: [UInt8]
        var integrity: String?
        if device.appID.isAndroid {
            guard let chosen = try device.enrolmentRecord()?.chosenTag else {
                throw SimulatorError("the device is not enrolled")
            }
            tag = chosen
            signature = try P256SigningKey(hardwareKey, library).sign(digest: library.sha256(of: data.span))
        } else {
            let maker = try AssertionMaker(hardwareKey, rpID: device.appID.description, library)
            tag = maker.keyID.bytes
            let parts = try maker.parts(
                counter: device.counter.take(), clientDataHash: library.sha256(of: data.span).bytes)
            signature = parts.signature
            integrity = Base64URL.encode(parts.authenticatorData)
        }
        let name = Base64URL.encode(tag)
        let token = try sign("wia-request+jwt", hasKeyID: true) { claims in
            claims.member("iss", name)
            claims.member("iat", now)
            claims.member("exp", now + 300)
            claims.member("nonce", nonce)
            claims.member("hardware_signature", Base64URL.encode(signature))
            claims.member("integrity_assertion", integrity)
            claims.member("hardware_key_tag", name)
            claims.object("cnf") { $0.object("jwk") { write(to: &$0) } }
            claims.member("platform", device.appID.isAndroid ? "Android" : "iOS")
        }
        return JSONWriter.object { $0.member("assertion", token) }
    }

    /// Returns a proof of possession: a Client Attestation PoP JWT.
    ///
    /// - Parameters:
    ///   - resource: Its `aud`.
    ///   - now: The time in seconds since 1970.
    public func proof(for resource: String, challenge: String, now: Int64) throws -> String {
        let id = Base64URL.encode(try library.randomBytes(16))
        return try sign("oauth-client-attestation-pop+jwt", hasKeyID: false) { claims in
            claims.member("aud", resource)
            claims.member("jti", id)
            claims.member("iat", now)
            claims.member("challenge", challenge)
        }
    }

    private func write(to jwk: inout JSONWriter) {
        jwk.member("kty", "EC")
        jwk.member("crv", "P-256")
        jwk.member("x", x)
        jwk.member("y", y)
    }

    private func sign(_ type: String, hasKeyID: Bool, _ claims: (inout JSONWriter) -> Void) throws -> String {
        let header = JSONWriter.object { header in
            header.member("alg", "ES256")
            header.member("typ", type)
            header.member("kid", hasKeyID ? thumbprint : nil)
        }
        let input = "\(Base64URL.encode(header)).\(Base64URL.encode(JSONWriter.object(claims)))"
        let signature = try key.sign(digest: library.sha256(of: Array(input.utf8).span))
        guard let fixed = ECDSASignature.fixedWidth(der: signature.span) else {
            throw SimulatorError("the wallet's signature cannot be encoded")
        }
        return "\(input).\(Base64URL.encode(fixed))"
    }
}
