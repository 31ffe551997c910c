import Attestation
import Cryptography
import Encoding
import EventLoop
import Registry
import Testing
import Vocabulary

@testable import Enrolment

@Suite("The issuer of device tokens")
struct DeviceTokenIssuerTests {
    private static let now: Int64 = 1_790_000_000
    private let keys: Keys
    private let pem: [UInt8]
    private let issuer: DeviceTokenIssuer
    private let key: KeyID
    private let thumbprint = [UInt8](repeating: 9, count: 32)

    init() throws {
        keys = try Keys()
        pem = try PrivateKey.generateP256(keys.library).pem()
        issuer = try Self.issuer(pem, keys)
        let digest = [UInt8](repeating: 5, count: 32)
        let key = KeyID(digest: digest.span)
        self.key = try #require(key)
    }

    private static func issuer(_ pem: [UInt8], _ keys: Keys, life: Int64 = 600) throws -> DeviceTokenIssuer {
        try DeviceTokenIssuer(DeviceTokenIssuerSettings(issuer: "GMS", key: pem, life: life), keys.library)
    }

    private func posture(_ platform: Platform) -> Posture {
        var posture = Posture(platform: platform, enrolledAt: 1, admission: .token)
        posture.subject = Fingerprint([UInt8](repeating: 3, count: 32))
        posture.system = SystemVersion(platform == .android ? "15" : "17.4.1")
        return posture
    }

    private func token(_ posture: Posture, app: String, saying signals: String? = nil) throws -> String {
        let app = try #require(AppID(app))
        return try issuer.token(
            for: DeviceTokenSubject(
                app: app, posture: posture, key: key, thumbprint: thumbprint, counter: 42,
                signals: signals.flatMap { Signals(content: Array($0.utf8), claimedAt: 1) }),
            now: Self.now)
    }

    /// Returns header and claims, as text and parsed.
    private func parts(_ token: String) throws -> [(text: String, object: JSONObject)] {
        try token.split(separator: ".").prefix(2).map { part in
            let bytes = try #require(Base64URL.decode(String(part)))
            return (String(decoding: bytes, as: UTF8.self), try JSONReader.object(in: bytes, longest: 8_192))
        }
    }

    private func set(_ keys: TokenKeys, at now: Int64 = now) throws -> [UInt8] { try #require(keys.set(now: now)) }

    @Test(
        "a gateway that has the published keys accepts it for this certificate, while it lives",
        arguments: [Platform.iOS, .android])
    func verified(_ platform: Platform) throws {
        var published = TokenKeys()
        published.adopt(issuer, now: Self.now)
        let app = platform == .android ? "android:org.example.app" : "TEAM123456.org.example.app"
        let token = Array(try token(posture(platform), app: app).utf8)
        for binding in DeviceTokenBinding.allCases {
            let verifier = try DeviceTokenVerifier(
                DeviceTokenDemands(issuer: "GMS", binding: binding), keys: set(published), keys.library)
            let holder = DeviceTokenHolder(thumbprint: thumbprint, key: key)
            #expect(try verifier.verify(token, of: holder, at: Self.now).end == Self.now + 600)
            #expect(throws: DeviceTokenFault.expired) { try verifier.verify(token, of: holder, at: Self.now + 600) }
            let digest = [UInt8](repeating: 6, count: 32)
            let other = DeviceTokenHolder(thumbprint: digest, key: KeyID(digest: digest.span))
            #expect(throws: DeviceTokenFault.binding(binding)) { try verifier.verify(token, of: other, at: Self.now) }
        }
    }

    @Test("an iPhone's token has exactly the claims of the reference system")
    func apple() throws {
        var posture = posture(.iOS)
        let parts = try parts(token(posture, app: "TEAM123456.org.example.app"))
        let kid = issuer.signer.publicKey.id
        #expect(parts[0].text == #"{"typ":"JWT","alg":"ES256","kid":"\#(kid)"}"#)
        let claims = parts[1].object
        #expect(
            claims.members.map { String(decoding: $0.name, as: UTF8.self) } == [
                "iss", "sub", "iat", "exp", "jti", "type", "userIdentifier", "cnf", "deviceHealth",
            ])
        #expect(claims["sub"]?.spells("BQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQU=") == true)
        #expect(claims["type"]?.spells("IOS") == true)
        let rpID = try Base64.encode(keys.hash(Array("TEAM123456.org.example.app".utf8)))
        let health = #""deviceHealth":{"assertion":{"rpID":"\#(rpID)","counter":42,"riskMetric":"unavailable"},"#
        let attributes = #""deviceAttributes":{"systemVersion":"17.4.1"}}}"#
        #expect(parts[1].text.hasSuffix(health + attributes), "\(parts[1].text)")
        posture.risk = 3
        let risky = try self.parts(token(posture, app: "TEAM123456.org.example.app"))[1].text
        #expect(risky.contains(#""riskMetric":"3""#))
    }

    @Test("an Android phone's token has its attestation by the names of the reference system")
    func android() throws {
        var posture = posture(.android)
        posture.keyProtection = .strongBox
        posture.boot = .verified
        posture.isBootloaderLocked = true
        posture.patchLevel = 202_601
        posture.vendorPatchLevel = 20_260_105
        posture.app = AppVersion(code: 1_042)
        posture.integrity = [.basic, .strong]
        let text = try parts(token(posture, app: "android:org.example.app"))[1].text
        let expected =
            #""deviceHealth":{"integrityVerdict":{"deviceIntegrity":{"deviceRecognitionVerdict":"#
            + #"["MEETS_BASIC_INTEGRITY","MEETS_STRONG_INTEGRITY"]}},"#
            + #""keyIdAttestation":{"attestationSecurityLevel":2,"keyStore":{"securityLevel":2},"#
            + #""softwareEnforced":{"attestationApplicationId":{"packageInfos":"#
            + #"[{"packageName":"org.example.app","version":1042}]}},"#
            + #""teeEnforced":{"rootOfTrust":{"deviceLocked":true,"verifiedBootState":"VERIFIED"},"#
            + #""osVersion":150000,"osPatchLevel":202601,"vendorPatchLevel":20260105}},"deviceAttributes":{"systemVersion":"15.0"}}}"#
        #expect(text.hasSuffix(expected), "\(text)")
        #expect(text.contains(#""type":"ANDROID""#))
        // One that an operator added has no attestation.
        let bare = try parts(token(Posture(platform: .android, enrolledAt: 1), app: "android:org.example.app"))[1].text
        #expect(bare.hasSuffix(#""deviceHealth":{"deviceAttributes":{}}}"#), "\(bare)")
        #expect(!bare.contains("userIdentifier"))
    }

    @Test("what the app says is among the attributes of the device, and an attested version takes precedence")
    func signals() throws {
        let said = #"{"systemModel":"iPhone 14","systemVersion":"iOS 26","build":{"board":"b"}}"#
        func attributes(_ posture: Posture) throws -> String {
            let text = try parts(token(posture, app: "TEAM123456.org.example.app", saying: said))[1].text
            let start = try #require(text.ranges(of: #""deviceAttributes":"#).first)
            return String(text[start.upperBound...])
        }
        var posture = posture(.iOS)
        #expect(
            try attributes(posture) == #"{"systemVersion":"17.4.1","systemModel":"iPhone 14","build":{"board":"b"}}}}"#)
        posture.system = nil
        #expect(try attributes(posture) == said + "}}")
    }

    @Test("the person is a pseudonym of the issuer's own, and each token has another id")
    func pseudonym() throws {
        let claims = try (0..<2).map { _ in
            try parts(token(posture(.iOS), app: "TEAM123456.org.example.app"))[1].object
        }
        #expect(claims[0]["jti"] != claims[1]["jti"])
        let user = try #require(claims[0]["userIdentifier"]?.text)
        #expect(user.count == 64 && claims[1]["userIdentifier"]?.text == user)
        #expect(user != Array(Hexadecimal.encode([UInt8](repeating: 3, count: 32)).utf8))
    }

    @Test("a key that is not on P-256, or none, is refused")
    func otherKeys() {
        for text in ["", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"] {
            #expect(throws: CryptographyError.self) { try Self.issuer(Array(text.utf8), keys) }
        }
    }

    @Test("an earlier key is published until its last token has expired")
    func rotation() throws {
        let next = try Self.issuer(PrivateKey.generateP256(keys.library).pem(), keys)
        var published = TokenKeys()
        #expect(published.set(now: Self.now) == nil)
        published.adopt(issuer, now: Self.now)
        // A reload with the same key changes nothing.
        published.adopt(try Self.issuer(pem, keys), now: Self.now)
        func ids(at time: Int64) throws -> [String] {
            let set = try JSONReader.object(in: set(published, at: time), longest: 8_192)
            guard case .array(let elements)? = set["keys"] else { return [] }
            return elements.compactMap { $0.object?["kid"]?.text }.map { String(decoding: $0, as: UTF8.self) }
        }
        let (old, new) = (issuer.signer.publicKey.id, next.signer.publicKey.id)
        #expect(try ids(at: Self.now) == [old])
        published.adopt(next, now: Self.now)
        #expect(try ids(at: Self.now + 600) == [new, old])
        #expect(try ids(at: Self.now + 660) == [new])
        // Back, as after a mistake.
        published.adopt(issuer, now: Self.now + 10)
        #expect(try ids(at: Self.now + 20) == [old, new])
        published.adopt(nil, now: Self.now + 30)
        #expect(published.set(now: Self.now + 30) == nil)
    }

    @Test("the endpoint has the keys, if tokens are issued")
    func endpoint() throws {
        #expect(try TestService().ask("GET /.well-known/jwks.json").status == 404)
        let service = try TestService { settings in
            settings.deviceTokens = DeviceTokenIssuerSettings(issuer: "GMS", key: pem, life: 600)
        }
        service.shared.tokenKeys.adopt(issuer, now: WallClock.seconds)
        let answer = try service.ask("GET /.well-known/jwks.json")
        #expect(answer.status == 200 && answer.has("Content-Type: application/json"))
        #expect(answer.content.contains(#""use":"sig","alg":"ES256","kid":"\#(issuer.signer.publicKey.id)""#))
        #expect(!answer.content.contains(#""d":"#))
        #expect(try service.ask("POST /.well-known/jwks.json", content: "{}").has("Allow: GET"))
        #expect(try service.ask("GET /.well-known/jwks.json?a=b").status == 400)
        #expect(try service.ask("GET /.well-known/jwks.json", content: "x").status == 400)
    }
}

extension TokenKeys {
    /// Adopts the key of one issuer, or of none.
    fileprivate mutating func adopt(_ issuer: DeviceTokenIssuer?, now: Int64) {
        adopt(issuer.map { [($0.signer.publicKey, $0.life)] } ?? [], now: now)
    }
}
