import Attestation
import Cryptography
import Encoding
import EventLoop
import HTTP
import Testing
import Upstream

@testable import Enrolment

@Suite("Admission tokens")
struct AdmissionTokenTests {
    private static let issuer = "https://login.example.org"
    private static let thumbprint = "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"
    private let keys: Keys
    private let key: P256SigningKey
    private let verifier: AdmissionTokenVerifier

    init() throws {
        keys = try Keys()
        key = try keys.generate()
        verifier = try Self.verifier(keys, [key, keys.generate()])
    }

    private static func verifier(
        _ keys: Keys, _ trusted: [P256SigningKey], issuer: String = issuer
    ) throws -> AdmissionTokenVerifier {
        let secret = [UInt8](repeating: UInt8(ascii: "k"), count: 32)
        let audience = ProviderURL(KeyBindingDraft.provider)
        return try AdmissionTokenVerifier(
            issuer: issuer, keys: .listed(trusted.map(\.point)), audience: #require(audience), longestLife: 3600,
            pseudonymKey: AuthenticationKey(secret.span, keys.library), keys.library)
    }

    private static func claims(thumbprint: String = thumbprint) -> Draft {
        let now = KeyBindingDraft.now
        return Draft(members: [
            ("iss", quoted(issuer)), ("aud", quoted(KeyBindingDraft.provider)), ("exp", "\(now + 600)"),
            ("iat", "\(now)"), ("jti", "\"token-1\""), ("sub", "\"subject-1\""),
            ("cnf", #"{"jkt":"\#(thumbprint)"}"#), ("amr", "[\"pin\"]"),
        ])
    }

    private func token(
        _ claims: Draft = claims(), header: String = #"{"alg":"ES256","kid":"1","typ":"JWT"}"#,
        signer: P256SigningKey? = nil
    ) throws -> [UInt8] {
        let input = base64URL(header) + "." + base64URL(claims.text)
        return Array((input + "." + base64URL(try keys.sign(Array(input.utf8), signer ?? key))).utf8)
    }

    private func verify(
        _ token: [UInt8], _ verifier: AdmissionTokenVerifier? = nil, _ record: IssuerKeyRecord = IssuerKeyRecord()
    ) -> Result<Admission, AdmissionFault> {
        do throws(AdmissionFault) {
            return .success(
                try (verifier ?? self.verifier).verify(
                    token, keyThumbprint: Self.thumbprint, record, now: KeyBindingDraft.now))
        } catch {
            return .failure(error)
        }
    }

    @Test("the issuer's token for this key is accepted, and its subject becomes a pseudonym")
    func valid() throws {
        let admission = try verify(token()).get()
        #expect(admission.tokenID == Array("token-1".utf8))
        #expect(admission.expiry == KeyBindingDraft.now + 600)
        // The expected value was computed with Python's hmac.
        let hex = admission.subject.bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
        #expect(hex == "9d1cdd52fab0038c39ca59f1364938d950799b6e748c73707bf2a694c74e8ebe")
    }

    @Test("every configured key of the issuer is accepted, but no other key and no embedded one")
    func issuersKeys() throws {
        let second = try Self.verifier(keys, [keys.generate(), key])
        #expect(try verify(token(), second).failure == nil)
        let stranger = try keys.generate()
        let x = base64URL(Array(stranger.point[1..<33]))
        let y = base64URL(Array(stranger.point[33...]))
        let header = #"{"alg":"ES256","jwk":{"kty":"EC","crv":"P-256","x":"\#(x)","y":"\#(y)"}}"#
        #expect(try verify(token(header: header, signer: stranger)) == .failure(.signature))
        #expect(try verify(token(signer: stranger)) == .failure(.signature))
    }

    @Test("pseudonyms depend on subject and issuer alone")
    func pseudonyms() throws {
        let first = try verify(token()).get().subject
        var claims = Self.claims()
        claims["jti"] = "\"token-2\""
        #expect(try verify(token(claims)).get().subject == first)
        claims["sub"] = "\"subject-2\""
        #expect(try verify(token(claims)).get().subject != first)
        // One byte moved from the issuer to the subject.
        claims["iss"] = quoted(String(Self.issuer.dropLast()))
        claims["sub"] = "\"gsubject-1\""
        let other = try Self.verifier(keys, [key], issuer: String(Self.issuer.dropLast()))
        #expect(try verify(token(claims), other).get().subject != first)
    }

    @Test("every other token is refused by the check intended for it")
    func refused() throws {
        let now = KeyBindingDraft.now
        let wrong: [(String, String?, AdmissionFault)] = [
            ("iss", nil, .malformed), ("iss", "\"https://login.example.com\"", .issuer), ("iss", "1", .issuer),
            ("aud", nil, .malformed), ("aud", "\"https://login.example.org\"", .audience),
            ("aud", "[]", .audience), ("aud", "[\"https://login.example.org\"]", .audience),
            ("aud", "[[\"\(KeyBindingDraft.provider)\"]]", .audience),
            ("exp", nil, .malformed), ("exp", "1.5", .malformed), ("exp", "\(now)", .time),
            ("exp", "\(now + 3601)", .time),
            ("exp", "-1", .time), ("exp", "\(Int64.max)", .time), ("exp", "\(Int64.min)", .time),
            ("nbf", "\(now + 61)", .time), ("nbf", "\"x\"", .time), ("iat", "\(now + 61)", .time),
            ("jti", nil, .malformed), ("jti", "\"\"", .malformed), ("jti", "1", .malformed),
            ("jti", quoted(String(repeating: "x", count: 129)), .malformed),
            ("sub", nil, .malformed), ("sub", "\"\"", .malformed),
            ("sub", quoted(String(repeating: "x", count: 256)), .malformed),
            ("cnf", nil, .malformed), ("cnf", "{}", .malformed), ("cnf", "\"x\"", .malformed),
            ("cnf", #"{"jkt":"NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"}"#, .key), ("cnf", #"{"jkt":1}"#, .key),
        ]
        for (name, value, fault) in wrong {
            var claims = Self.claims()
            claims[name] = value
            #expect(try verify(token(claims)) == .failure(fault), "\(name) \(value ?? "missing")")
        }
        for header in [#"{"alg":"none"}"#, #"{"alg":"HS256"}"#, "{}", #"{"alg":"ES256","crit":["b64"],"b64":false}"#] {
            #expect(try verify(token(header: header)) == .failure(.header))
        }
        #expect(verify([]) == .failure(.malformed))
        // Keys in files are on P-256.
        for alg in ["RS256", "PS256"] {
            #expect(try verify(token(header: #"{"alg":"\#(alg)"}"#)) == .failure(.algorithm))
        }
        var several = Self.claims()
        several["aud"] = "[\"account\",\"\(KeyBindingDraft.provider)\"]"
        #expect(try verify(token(several)).failure == nil)
        var twice = Self.claims()
        twice.members.append(("sub", "\"another\""))
        #expect(try verify(token(twice)) == .failure(.malformed))
        var long = Self.claims()
        long["x"] = quoted(String(repeating: "x", count: AdmissionTokenVerifier.lengthLimit))
        #expect(try verify(token(long)) == .failure(.malformed))
    }

    @Test("an issuer has 1 to 8 keys")
    func keyLimit() {
        #expect(throws: CryptographyError.self) { try Self.verifier(keys, []) }
        #expect(throws: CryptographyError.self) { try Self.verifier(keys, [P256SigningKey](repeating: key, count: 9)) }
    }

    @Test("a key binding may omit the admission token, but a wrong one is refused")
    func keyBinding() throws {
        var draft = try KeyBindingDraft(keys)
        // A device that was admitted before needs none. The registry checks that.
        #expect(try draft.verify(admission: verifier).get().admission == nil)
        let good = try token(Self.claims(thumbprint: draft.thumbprint))
        draft.claims["admission_token"] = quoted(String(decoding: good, as: UTF8.self))
        #expect(try draft.verify(admission: verifier).get().admission?.tokenID == Array("token-1".utf8))
        draft.claims["admission_token"] = "1"
        #expect(try draft.verify(admission: verifier) == .failure(.valueFormat(.admissionToken)))
        draft.claims["admission_token"] = quoted(String(decoding: try token(), as: UTF8.self))
        #expect(try draft.verify(admission: verifier) == .failure(.admission(.key)))
        // The token is verified only after the key has proven possession.
        draft.signer = draft.hardwareKey
        #expect(try draft.verify(admission: verifier) == .failure(.tokenSignature))
    }
}

@Suite("Keys of admission tokens that are fetched")
struct IssuerKeyTests {
    private static let source = "https://login.example.org/keys"
    private static let now = KeyBindingDraft.now
    private let keys: Keys
    private let key: P256SigningKey
    private let verifier: AdmissionTokenVerifier

    init() throws {
        keys = try Keys()
        key = try keys.generate()
        let secret = [UInt8](repeating: UInt8(ascii: "k"), count: 32)
        let service = FetchedService(
            url: Self.source, host: "login.example.org", path: "/keys",
            upstream: UpstreamSettings(
                name: "token", servers: [UpstreamSettings.Server(NamedServer(host: "login.example.org", port: 443))]),
            resolver: ResolverSettings(), forbidden: ForbiddenAddresses(listeners: []), timeout: .seconds(1))
        let settings = IssuerKeySettings(
            service: service, content: .keys, interval: 3600, retry: 60, staleAfter: 86_400)
        verifier = try AdmissionTokenVerifier(
            issuer: "https://login.example.org", keys: .fetched(settings),
            audience: #require(ProviderURL(KeyBindingDraft.provider)), longestLife: 3600,
            pseudonymKey: AuthenticationKey(secret.span, keys.library), keys.library)
    }

    private func record(source: String = source, fetched: Int64 = now - 10) throws -> IssuerKeyRecord {
        let x = base64URL(Array(key.point[1..<33]))
        let y = base64URL(Array(key.point[33...]))
        let text = Array(#"{"keys":[{"kty":"EC","crv":"P-256","kid":"a","x":"\#(x)","y":"\#(y)"}]}"#.utf8)
        var record = IssuerKeyRecord(source: source, staleAfter: 86_400)
        record.kept = IssuerKeyRecord.Kept(
            keys: try JWKSet(text, keys.library), text: text, confirmedAt: fetched)
        record.fetchedAt = fetched
        return record
    }

    private func fault(_ record: IssuerKeyRecord, header: String = #"{"alg":"ES256","kid":"a"}"#) throws
        -> AdmissionFault?
    {
        let claims = Draft(members: [
            ("iss", quoted("https://login.example.org")), ("aud", quoted(KeyBindingDraft.provider)),
            ("exp", "\(Self.now + 600)"), ("jti", quoted("1")), ("sub", quoted("s")), ("cnf", #"{"jkt":"t"}"#),
        ])
        let input = base64URL(header) + "." + base64URL(claims.text)
        let token = Array((input + "." + base64URL(try keys.sign(Array(input.utf8), key))).utf8)
        do throws(AdmissionFault) {
            _ = try verifier.verify(token, keyThumbprint: "t", record, now: Self.now)
            return nil
        } catch {
            return error
        }
    }

    @Test("a token is verified by the fetched key that it names")
    func named() throws {
        #expect(try fault(record()) == nil)
        #expect(try fault(record(), header: #"{"alg":"ES256"}"#) == nil)
        #expect(try fault(record(), header: #"{"alg":"RS256","kid":"a"}"#) == .algorithm)
    }

    @Test("without keys, with those of another source and with stale ones no token is accepted")
    func unavailable() throws {
        #expect(try fault(IssuerKeyRecord()) == .keysUnavailable)
        #expect(try fault(IssuerKeyRecord(source: Self.source, staleAfter: 86_400)) == .keysUnavailable)
        #expect(try fault(record(source: "https://login.example.com/keys")) == .keysUnavailable)
        #expect(try fault(record(fetched: Self.now - 86_400)) == nil)
        #expect(try fault(record(fetched: Self.now - 86_401)) == .keysUnavailable)
        #expect(try fault(record(fetched: Self.now + 86_401)) == .keysUnavailable)
        #expect(EnrolmentFault.admission(.keysUnavailable).error == .temporarilyUnavailable)
        #expect(EnrolmentFault.admission(.keysUnavailable).retryAfter == 60)
    }

    @Test("an unknown kid is a reason to fetch once a minute, and a refusal in between")
    func unknown() throws {
        let header = #"{"alg":"ES256","kid":"b"}"#
        #expect(try fault(record(fetched: Self.now - 59), header: header) == .unknownKey)
        #expect(try fault(record(fetched: Self.now - 60), header: header) == .keyNotFetched)
        // The clock was set back.
        #expect(try fault(record(fetched: Self.now + 61), header: header) == .keyNotFetched)
        #expect(EnrolmentFault.admission(.unknownKey).error == .invalidRequest)
        #expect(EnrolmentFault.admission(.keyNotFetched).error == .temporarilyUnavailable)
        #expect(EnrolmentFault.admission(.keyNotFetched).retryAfter == 5)
    }

    @Test("metadata must name this issuer, byte by byte, and an https URL")
    func metadata() throws {
        func location(_ text: String) -> Result<SecureURL, IssuerMetadata.Fault> {
            do throws(IssuerMetadata.Fault) {
                return .success(try IssuerMetadata.location(in: Array(text.utf8), issuer: "https://a.example/r"))
            } catch {
                return .failure(error)
            }
        }
        let good = try location(#"{"issuer":"https://a.example/r","jwks_uri":"https://B.example:443/k?x=1","z":[]}"#)
            .get()
        #expect(good.origin == "b.example" && good.rest == "/k?x=1" && good.namedHost?.port == 443)
        for issuer in ["https://a.example/r/", "https://A.example/r", "https://a.example", "https://b.example/r"] {
            let text = #"{"issuer":"\#(issuer)","jwks_uri":"https://a.example/k"}"#
            #expect(location(text) == .failure(.issuer), "\(issuer)")
        }
        #expect(location(#"{"jwks_uri":"https://a.example/k"}"#) == .failure(.issuer))
        for uri in ["http://a.example/k", "https://u@a.example/k", "https://a.example", "file:///k", "https://a b/k"] {
            #expect(
                location(#"{"issuer":"https://a.example/r","jwks_uri":"\#(uri)"}"#) == .failure(.location), "\(uri)")
        }
        #expect(location("[]") == .failure(.json(.notAnObject)))
    }

    @Test("only a name is called on another host")
    func otherHosts() {
        for (url, name) in [
            ("https://keys.example:8443/k", "keys.example"), ("https://localhost/k", "localhost"),
            ("https://127.0.0.1/k", nil), ("https://[::1]/k", nil), ("https://0x7f.1/k", nil),
            ("https://2130706433/k", nil),
            ("https://a..b/k", nil), ("https://a.0x7f/k", nil), ("https://a:0/k", nil), ("https://a:65536/k", nil),
            ("https://a:/k", nil),
        ] { #expect(SecureURL(url)?.namedHost?.name == name, "\(url)") }
    }
}

@Suite("JSON Web Signatures and Keys")
struct TokenTests {
    private let keys: Keys

    init() throws { keys = try Keys() }

    // RFC 7515 appendix A.3.
    private static let jwk =
        #"{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}"#
    private static let jws =
        "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"

    private func key(_ text: String) throws -> PublicJWK? {
        PublicJWK(try JSONReader.object(in: Array(text.utf8), longest: 1024))
    }

    private func token(_ text: String) -> Result<CompactJWS, JWSFault> {
        do throws(JWSFault) { return .success(try CompactJWS(Array(text.utf8))) } catch { return .failure(error) }
    }

    @Test("RFC 7515's ES256 example verifies with its key alone")
    func example() throws {
        let token = try token(Self.jws).get()
        #expect(token.header["alg"]?.spells("ES256") == true)
        #expect(token.payload["iss"]?.spells("joe") == true && token.payload["exp"]?.integer == 1_300_819_380)
        #expect(token.payload["http://example.com/is_root"] == .boolean(true))
        let point = try #require(try key(Self.jwk)).point
        let verification = try P256VerificationKey(point: point.span, keys.library)
        #expect(try token.isSigned(by: verification, keys.library))
        #expect(try !token.isSigned(by: keys.verification(keys.generate()), keys.library))
        #expect("\(String(decoding: token.signingInput, as: UTF8.self)).\(base64URL(token.signature))" == Self.jws)
    }

    @Test("RFC 7515's unsecured example has no valid signature")
    func unsecured() throws {
        // Appendix A.5.
        let text =
            "eyJhbGciOiJub25lIn0.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ."
        let token = try token(text).get()
        #expect(token.signature.isEmpty)
        #expect(try !token.isSigned(by: keys.verification(keys.generate()), keys.library))
    }

    @Test("a thumbprint follows RFC 7638, whatever the member order (example of RFC 9449 section 6.1)")
    func thumbprint() throws {
        let x = #""x":"l8tFrhx-34tV3hRICRDY9zCkDlpBhF42UQUfWVAWBFs""#
        let y = #""y":"9VE4jf_Ok_o64zbTTlcuNJajHmt6v9TDVrU0CdvGRDA""#
        for text in [#"{"kty":"EC",\#(x),\#(y),"crv":"P-256"}"#, #"{ \#(y), "crv": "P-256", \#(x), "kty": "EC" }"#] {
            let key = try #require(try key(text))
            #expect(try key.thumbprint(keys.library) == "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I")
        }
    }

    @Test("a second spelling of a token is malformed")
    func spellings() {
        let parts = Self.jws.split(separator: ".").map(String.init)
        let wrong = [
            Self.jws + ".", "." + Self.jws, Self.jws + "=", Self.jws + "\n", " " + Self.jws,
            parts[0] + "=." + parts[1] + "." + parts[2],
            parts[0] + "\n." + parts[1] + "." + parts[2],
            parts[0] + "." + parts[1] + "." + parts[2].replacing("-", with: "+"),
            // Bits after the last byte.
            parts[0] + "." + parts[1] + "." + parts[2].dropLast() + "R",
            parts[0] + "." + parts[1], parts[0],
        ]
        for text in wrong { #expect(token(text) == .failure(.malformed), "\(text)") }
        #expect(token("bm9wZQ.e30.AA") == .failure(.json(.malformed)))
        #expect(token(String(repeating: "A", count: CompactJWS.lengthLimit + 1)) == .failure(.malformed))
    }
}
