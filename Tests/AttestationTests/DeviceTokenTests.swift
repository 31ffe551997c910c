import Chance
import Cryptography
import Encoding
import TestVectors
import Testing
import Vocabulary

@testable import Attestation

@Suite("Device tokens")
struct DeviceTokenTests {
    private static let now: Int64 = 1_795_000_000
    private let library: LibraryContext
    private let key: P256SigningKey
    private let holder: DeviceTokenHolder
    private let other: DeviceTokenHolder

    init() throws {
        library = try LibraryContext()
        key = try P256SigningKey(PrivateKey.generateP256(library), library)
        holder = try Self.holder(1)
        other = try Self.holder(2)
    }

    private static func holder(_ seed: UInt8) throws -> DeviceTokenHolder {
        let digest = [UInt8](repeating: seed &+ 100, count: 32)
        return DeviceTokenHolder(thumbprint: [UInt8](repeating: seed, count: 32), key: KeyID(digest: digest.span))
    }

    private var header: [(String, String)] { [("typ", #""JWT""#), ("alg", #""ES256""#), ("kid", #""1""#)] }

    private func claims() throws -> [(String, String)] {
        let sub = try #require(holder.key?.bytes)
        return [
            ("iss", #""issuer""#), ("iat", "\(Self.now)"), ("exp", "\(Self.now + 600)"),
            ("sub", #""\#(Base64.encode(sub))""#),
            ("cnf", #"{"x5t#S256":"\#(Base64URL.encode(holder.thumbprint))"}"#), ("type", #""IOS""#),
        ]
    }

    private func token(
        header: [String: String?] = [:], claims: [String: String?] = [:], signer: P256SigningKey? = nil
    ) throws -> [UInt8] {
        func object(_ members: [(String, String)], _ change: [String: String?]) -> String {
            let kept = members.filter { change[$0.0] == nil }
            let added = change.compactMap { name, value in value.map { (name, $0) } }
            return "{" + (kept + added).map { #""\#($0.0)":\#($0.1)"# }.joined(separator: ",") + "}"
        }
        let parts = [object(self.header, header), object(try self.claims(), claims)]
        let input = Array(parts.map { Base64URL.encode(Array($0.utf8)) }.joined(separator: ".").utf8)
        let der = try (signer ?? key).sign(digest: library.sha256(of: input.span))
        let signature = ECDSASignature.fixedWidth(der: der.span)
        return input + [UInt8(ascii: ".")] + Array(Base64URL.encode(try #require(signature)).utf8)
    }

    private func keySet(_ members: String = #""kid":"1","alg":"ES256""#) throws -> [UInt8] {
        let jwk = try #require(PublicJWK(point: key.point))
        let members = JSONWriter.object { jwk.write(to: &$0) }.dropLast() + Array(",\(members)}".utf8)
        return Array(#"{"keys":["#.utf8) + members + Array("]}".utf8)
    }

    private func verify(
        _ token: [UInt8], binding: DeviceTokenBinding = .x5t, maximumAge: Int64 = 3_600,
        of holder: DeviceTokenHolder? = nil, at time: Int64 = now, keys: [UInt8]? = nil
    ) throws -> DeviceTokenFault? {
        let demands = DeviceTokenDemands(issuer: "issuer", binding: binding, maximumAge: maximumAge)
        let verifier = try DeviceTokenVerifier(demands, keys: keys ?? keySet(), library)
        let holder = holder ?? self.holder
        // The report for people has the same verdict.
        let report = verifier.report(token, of: holder, at: time)
        do throws(DeviceTokenFault) {
            _ = try verifier.verify(token, of: holder, at: time)
            #expect(report.isAccepted)
            return nil
        } catch {
            #expect(report.fault == error)
            return error
        }
    }

    @Test("a token for the certificate is accepted until it ends, by either binding")
    func accepted() throws {
        let token = try token()
        for binding in DeviceTokenBinding.allCases {
            #expect(try verify(token, binding: binding) == nil)
            #expect(try verify(token, binding: binding, of: other) == .binding(binding))
        }
        #expect(try verify(token, at: Self.now + 599) == nil)
        #expect(try verify(token, at: Self.now + 600) == .expired)
        #expect(try verify(token, maximumAge: 60, at: Self.now + 59) == nil)
        #expect(try verify(token, maximumAge: 60, at: Self.now + 60) == .tooOld)
        #expect(try verify(token, at: Self.now - 60) == nil)
        #expect(try verify(token, at: Self.now - 61) == .fromTheFuture)
    }

    @Test("a key that is not on P-256 is bound by no sub")
    func otherKey() throws {
        let holder = DeviceTokenHolder(thumbprint: holder.thumbprint, key: nil)
        #expect(try verify(token(), of: holder) == nil)
        #expect(try verify(token(), binding: .sub, of: holder) == .binding(.sub))
    }

    @Test(
        "each claim that is missing, or of another type or value, is refused",
        arguments: [
            ("iss", nil, DeviceTokenFault.claim(.issuer)), ("iss", #"["issuer"]"#, .claim(.issuer)),
            ("iss", #""Issuer""#, .issuer), ("iss", #""issuer ""#, .issuer),
            ("iat", nil, .claim(.issuedAt)), ("iat", "1795000000.5", .claim(.issuedAt)),
            ("iat", #""1795000000""#, .claim(.issuedAt)), ("iat", "-1", .claim(.issuedAt)),
            ("exp", nil, .claim(.expiry)), ("exp", "1e99", .claim(.expiry)),
            ("exp", "9223372036854775807", .claim(.expiry)),
            ("exp", "1795000000", .expired), ("cnf", nil, .binding(.x5t)), ("cnf", #"{"x5t":"a"}"#, .binding(.x5t)),
            ("cnf", #"{"x5t#S256":null}"#, .binding(.x5t)), ("cnf", #""x5t#S256""#, .binding(.x5t)),
            ("cnf", #"{"x5t#S256":""}"#, .binding(.x5t)),
        ])
    func claim(name: String, value: String?, fault: DeviceTokenFault) throws {
        #expect(try verify(token(claims: [name: value])) == fault)
    }

    @Test("sub is compared as it is written: standard base64 with padding")
    func spelling() throws {
        let bytes = try #require(holder.key?.bytes)
        let texts = [
            Base64URL.encode(bytes), String(Base64.encode(bytes).dropLast()), "", Base64.encode(holder.thumbprint),
        ]
        for text in texts {
            #expect(try verify(token(claims: ["sub": #""\#(text)""#]), binding: .sub) == .binding(.sub), "\(text)")
        }
        #expect(try verify(token(claims: ["sub": nil]), binding: .sub) == .binding(.sub))
    }

    @Test(
        "the header decides nothing: another type, algorithm or key is refused",
        arguments: [
            ("typ", nil, DeviceTokenFault.type), ("typ", #""at+jwt""#, .type), ("typ", #""jwt""#, .type),
            ("alg", nil, .header), ("alg", #""none""#, .header), ("alg", #""HS256""#, .header),
            ("alg", #""es256""#, .header), ("alg", #""ES384""#, .header), ("alg", #""RS256""#, .algorithm),
            ("crit", #"["b64"]"#, .header), ("kid", #""2""#, .keyUnknown), ("kid", "1", .header),
        ])
    func headerMember(name: String, value: String?, fault: DeviceTokenFault) throws {
        #expect(try verify(token(header: [name: value])) == fault)
    }

    @Test("a key in the header is ignored, and another key's signature is refused")
    func ownKey() throws {
        let stranger = try P256SigningKey(PrivateKey.generateP256(library), library)
        let jwk = try #require(PublicJWK(point: stranger.point))
        let members = String(decoding: JSONWriter.object { jwk.write(to: &$0) }, as: UTF8.self)
        #expect(try verify(token(header: ["jwk": members], signer: stranger)) == .signature)
        #expect(try verify(token(header: ["jwk": members])) == nil)
    }

    @Test("without kid, the issuer's only key is meant")
    func noKeyID() throws {
        let token = try token(header: ["kid": nil])
        #expect(try verify(token) == nil)
        #expect(try verify(token, keys: keySet(#""alg":"ES256""#)) == nil)
    }

    @Test("no byte of a token may be another one")
    func changed() throws {
        let token = try token()
        var chance = SeededGenerator(seed: RunSeed.tell())
        for index in token.indices {
            var changed = token
            changed[index] = UInt8.random(in: 0x21...0x7e, using: &chance)
            guard changed[index] != token[index] else { continue }
            #expect(try verify(changed) != nil, "byte \(index) is \(changed[index])")
        }
        for text in ["", ".", "..", "a.b", "a.b.c.d", String(decoding: token.dropLast(), as: UTF8.self)] {
            #expect(try verify(Array(text.utf8)) != nil, "\(text)")
        }
        #expect(try verify(token + [0x20]) == .malformed)
        #expect(try verify([UInt8](repeating: 0x61, count: DeviceTokenVerifier.lengthLimit + 1)) == .malformed)
    }

    @Test("a set that has no usable key is refused at the start")
    func keySets() throws {
        let demands = DeviceTokenDemands(issuer: nil, binding: .x5t)
        for text in ["", "{}", #"{"keys":[]}"#, #"{"keys":[{"kty":"oct","k":"AAAA"}]}"#] {
            #expect(throws: CryptographyError.self) {
                try DeviceTokenVerifier(demands, keys: Array(text.utf8), library)
            }
        }
    }
}

/// The token of the reference system's proof of concept.
@Suite("A genuine device token", .enabled(if: SharedVectors.has("dsr/device-token.jwt")))
struct GenuineDeviceTokenTests {
    private static let issuedAt: Int64 = 1_692_798_300
    private let library: LibraryContext
    private let token: [UInt8]
    private let keys: [UInt8]

    init() throws {
        library = try LibraryContext()
        token = Array(try SharedVectors.bytes("dsr/device-token.jwt").filter { $0 > 0x20 })
        keys = try SharedVectors.bytes("dsr/device-verify-jwks.json")
    }

    private func fault(
        _ token: [UInt8], of holder: DeviceTokenHolder?, binding: DeviceTokenBinding = .x5t, at time: Int64 = issuedAt
    ) throws -> DeviceTokenFault? {
        let demands = DeviceTokenDemands(issuer: "DSR GMS 1.0.0", binding: binding)
        return try DeviceTokenVerifier(demands, keys: keys, library).report(token, of: holder, at: time).fault
    }

    @Test("it verifies at its time, not an hour later, and with no byte changed")
    func verifies() throws {
        #expect(try fault(token, of: nil) == nil)
        #expect(try fault(token, of: nil, at: Self.issuedAt + 3_599) == nil)
        #expect(try fault(token, of: nil, at: Self.issuedAt + 3_600) == .tooOld)
        #expect(try fault(token, of: nil, at: 2_323_518_300) == .expired)
        for index in token.indices {
            var changed = token
            changed[index] = token[index] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
            #expect(try fault(changed, of: nil) != nil, "byte \(index)")
        }
    }

    @Test("its cnf is of one certificate")
    func certificate() throws {
        let thumbprint = try #require(Base64URL.decode("f3It_L5xjN07cvtD7x0pa_yeIr5TRNeVz0BsbWOk5HM"))
        #expect(try fault(token, of: DeviceTokenHolder(thumbprint: thumbprint, key: nil)) == nil)
        let other = DeviceTokenHolder(thumbprint: [UInt8](repeating: 1, count: 32), key: nil)
        #expect(try fault(token, of: other) == .binding(.x5t))
        #expect(try fault(token, of: other, binding: .sub) == .binding(.sub))
    }

    @Test("its sub is of one key")
    func subject() throws {
        let digest = try #require(Base64.decode("aC6K6nkhTSTiFg+aAdShRF34Kn/8pevkZDhbz9PJ+dA="))
        let holder = DeviceTokenHolder(thumbprint: [], key: KeyID(digest: digest.span))
        #expect(try fault(token, of: holder, binding: .sub) == nil)
    }
}
