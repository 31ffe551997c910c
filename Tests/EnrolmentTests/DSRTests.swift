import Attestation
import Cryptography
import Encoding
import Registry
import Testing

@testable import Enrolment

/// A card of `X764228532` from 2026 to 2031 with its authority, made by Python's cryptography, and a token that it has
/// signed.
private enum Card {
    static let authority = """
        MIIBVjCB/qADAgECAgEFMAoGCCqGSM49BAMCMCExHzAdBgNVBAMMFkdFTS5FR0stQ0ExMCBURVNULU9OTFkwHhcNMjYwMTAxMDAw\
        MDAwWhcNMzQwMTAxMDAwMDAwWjAhMR8wHQYDVQQDDBZHRU0uRUdLLUNBMTAgVEVTVC1PTkxZMFowFAYHKoZIzj0CAQYJKyQDAwII\
        AQEHA0IABGbpGCQQv5/FG7DuE2ntJX1y82KIq4qnJWMHbFVrQEsnnwIy5XG6T3yzBHWSqtxvyrY/r6zAM0aY/AFoNuOF68qjJjAk\
        MBIGA1UdEwEB/wQIMAYBAf8CAQAwDgYDVR0PAQH/BAQDAgEGMAoGCCqGSM49BAMCA0cAMEQCIBaJao+qTykdSaCBfOXXSyGAcMDT\
        3oBSS7IhiToenCDiAiA3EaY5zXtB6jie5UdVLeuMqwepvtzMeGRnGPyo/5K/yQ==
        """
    /// Another authority of that name.
    static let otherAuthority = """
        MIIBVzCB/qADAgECAgEFMAoGCCqGSM49BAMCMCExHzAdBgNVBAMMFkdFTS5FR0stQ0ExMCBURVNULU9OTFkwHhcNMjYwMTAxMDAw\
        MDAwWhcNMzQwMTAxMDAwMDAwWjAhMR8wHQYDVQQDDBZHRU0uRUdLLUNBMTAgVEVTVC1PTkxZMFowFAYHKoZIzj0CAQYJKyQDAwII\
        AQEHA0IABEInZT9yyGxfo0yt19cKyZjJE7Hcg/LxTD64oM8BaJz8JSdz3cKGms+8tWyq08IKr4g2+Uc+3+dzMzAqCPorXXWjJjAk\
        MBIGA1UdEwEB/wQIMAYBAf8CAQAwDgYDVR0PAQH/BAQDAgEGMAoGCCqGSM49BAMCA0gAMEUCIQCn0nqExjbl6ejs0BzcEXQaG6r9\
        vqfajgAe9ob/vCxR+QIgQTx3EZjxOt3b0B+mxzAMpNsZcTgWEMw4jAh3zbCY4F0=
        """
    static let token = """
        eyJhbGciOiAiQlAyNTZSMSIsICJ4NWMiOiBbIk1JSUJpakNDQVRDZ0F3SUJBZ0lCQlRBS0JnZ3Foa2pPUFFRREFqQWhNUjh3SFFZ\
        RFZRUUREQlpIUlUwdVJVZExMVU5CTVRBZ1ZFVlRWQzFQVGt4Wk1CNFhEVEkyTURFd01UQXdNREF3TUZvWERUTXhNREV3TVRBd01E\
        QXdNRm93V1RFTE1Ba0dBMVVFQmhNQ1JFVXhFakFRQmdOVkJBc01DVGc1T1RBM056ZzVNVEVUTUJFR0ExVUVDd3dLV0RjMk5ESXlP\
        RFV6TWpFaE1COEdBMVVFQXd3WVdtRmphR0Z5YVdGeklGcGxZbkpoVkVWVFZDMVBUa3haTUZvd0ZBWUhLb1pJemowQ0FRWUpLeVFE\
        QXdJSUFRRUhBMElBQktMMU1aOXRMcXZLc1FGN3g4cEVsSXNlRHBzbS8xYVZWMndqSlZsREZZeE5OZE9KUWVVK2ZKMlQ5T1drakg2\
        YnlSdjV1dkhpcDBqWUZaZmdKaG9BUEI2aklEQWVNQXdHQTFVZEV3RUIvd1FDTUFBd0RnWURWUjBQQVFIL0JBUURBZ2VBTUFvR0ND\
        cUdTTTQ5QkFNQ0EwZ0FNRVVDSVFDYkk1UDNBdkFMOWFzZFlJWEtpN1BzbUpCb0JuYkkzRXhBZHY0U2RYTVNKd0lnZnBWR0U1MDR5\
        WStJTDZabVBzTll0SjV3WmNSYUViODJpM21nQUZKMFVmRT0iXX0.eyJpc3MiOiAiVHJ1c3RTREtfMS4wIn0.FbdY6ci3Dru-JF_-\
        uv6uD5IRP5wagPmSKt1z143XiHqnSKu6d2syccSN8CYfWKovuq9Cji4Rz19OKZAvD02K7w
        """
    static let good: Int64 = 1_790_000_000

    static func pem(_ certificate: String) -> [UInt8] {
        // OpenSSL reads no longer lines.
        let characters = Array(certificate)
        let lines = stride(from: 0, to: characters.count, by: 64).map { String(characters[$0...].prefix(64)) }
        let text = lines.joined(separator: "\n")
        return Array("-----BEGIN CERTIFICATE-----\n\(text)\n-----END CERTIFICATE-----\n".utf8)
    }
}

@Suite("Health cards")
struct HealthCardTests {
    private let keys: Keys

    init() throws { keys = try Keys() }

    private func holder(
        _ token: String = Card.token, authorities: [UInt8] = Card.pem(Card.authority), now: Int64 = Card.good
    ) throws -> Result<String, EnrolmentFault> {
        let (cards, token) = (try HealthCards(pem: authorities, keys.library), try CompactJWS(Array(token.utf8)))
        do throws(EnrolmentFault) {
            return .success(String(decoding: try cards.holder(of: token, now: now), as: UTF8.self))
        } catch {
            return .failure(error)
        }
    }

    @Test("a card of a configured authority says who has it")
    func good() throws {
        #expect(try holder().get() == "X764228532")
        let both = Card.pem(Card.otherAuthority) + Card.pem(Card.authority)
        #expect(try holder(authorities: both).get() == "X764228532")
    }

    @Test("a card of another authority of the same name is refused")
    func untrusted() throws {
        #expect(try holder(authorities: Card.pem(Card.otherAuthority)).failure == .dsr(.cardUntrusted))
    }

    @Test("a card is refused before and after its validity")
    func validity() throws {
        for now in [1_767_225_599, 1_924_992_000, Int64.max] {
            #expect(try holder(now: now).failure == .dsr(.cardOutsideValidity))
        }
        for now in [1_767_225_600, 1_924_991_999] as [Int64] { #expect(try holder(now: now).failure == nil) }
    }

    @Test("a token that was altered is refused")
    func altered() throws {
        let parts = Card.token.split(separator: ".").map(String.init)
        let payload = base64URL(#"{"iss":"TrustSDK_2.0"}"#)
        #expect(try holder([parts[0], payload, parts[2]].joined(separator: ".")).failure == .dsr(.signature))
        #expect(
            try holder([parts[0], parts[1], base64URL([1, 2])].joined(separator: ".")).failure == .dsr(.signature))
        let header = String(decoding: try #require(Base64URL.decode(parts[0])), as: UTF8.self)
        for (before, after, fault) in [
            ("BP256R1", "ES256", DSRFault.algorithm), (#""alg""#, #""crit":["a"],"alg""#, .algorithm),
            (#"["MII"#, #"["AAAA","MII"#, .cardCount), ("MII", "AAA", .cardUnreadable), ("x5c", "x5t", .tokenSyntax),
        ] {
            let altered = base64URL(header.replacing(before, with: after, maxReplacements: 1))
            #expect(
                try holder([altered, parts[1], parts[2]].joined(separator: ".")).failure == .dsr(fault), "\(after)")
        }
    }

    @Test("what is no authority is not trusted")
    func authorities() throws {
        let jws = try CompactJWS(Array(Card.token.utf8))
        let card = Base64.encode(try jws.onlyCertificate())
        #expect(throws: CryptographyError.self) { try HealthCards(pem: Card.pem(card), keys.library) }
        #expect(throws: CryptographyError.self) { try HealthCards(pem: [], keys.library) }
    }
}

@Suite("Nonces and codes of the reference system")
struct DSRNonceTests {
    private let keys: Keys
    private let nonces: EnrolmentNonces
    private static let now: Int64 = 1_790_000_000

    init() throws {
        keys = try Keys()
        let id = try #require(RandomID([UInt8](repeating: 1, count: 16)))
        nonces = try EnrolmentNonces(
            TestService.settings(keys.library).secrets, StoreIdentity(store: id, epoch: id), life: 300, keys.library)
    }

    @Test("a nonce is base64 of 64 bytes, and the same nonce as in the own form")
    func nonce() throws {
        let issued = try nonces.issue(now: Self.now)
        let shown = DSRNonce(issued)
        #expect(Base64.decode(shown.text)?.count == 64)
        #expect(DSRNonce(Array(shown.text.utf8)) == shown)
        #expect(try nonces.singleUse(of: shown.nonce, now: Self.now) == nonces.singleUse(of: issued, now: Self.now))
        #expect(throws: EnrolmentFault.nonceExpired) { try nonces.singleUse(of: issued, now: Self.now + 300) }
        // It has one spelling.
        var other = shown.bytes
        other[63] = 1
        for text in [
            Base64.encode(other), String(shown.text.dropLast(2)), Base64.encode(Array(shown.bytes.dropLast())), "",
            base64URL(shown.bytes),
        ] {
            #expect(DSRNonce(Array(text.utf8)) == nil)
        }
    }

    @Test("a code is good for one certificate and one verifier, for the life of a nonce")
    func code() throws {
        let (certificate, verifier) = ([UInt8](repeating: 7, count: 32), Array("verifier".utf8))
        let code = try nonces.issueCode(for: certificate, challenge: keys.hash(verifier), now: Self.now)
        #expect(Base64.encode(try #require(Base64.decode(code))) == code, "an app decodes and encodes it")
        func use(
            _ code: String, _ certificate: [UInt8], _ verifier: [UInt8], _ now: Int64 = Self.now
        ) throws -> SingleUse {
            try nonces.singleUse(ofCode: Array(code.utf8), for: certificate, verifier: verifier, now: now)
        }
        let first = try use(code, certificate, verifier)
        #expect(try use(code, certificate, verifier, Self.now + 299) == first)
        #expect(first.expiresAt == Self.now + 300)
        #expect(throws: EnrolmentFault.nonceExpired) { try use(code, certificate, verifier, Self.now + 300) }
        for (code, certificate, verifier) in [
            (code, [UInt8](repeating: 8, count: 32), verifier), (code, certificate, Array("other".utf8)),
            (String(code.dropLast(2)), certificate, verifier), ("zz", certificate, verifier),
            (code.uppercased(), certificate, verifier), ("", certificate, verifier),
        ] {
            #expect(throws: EnrolmentFault.nonceRefused) { try use(code, certificate, verifier) }
        }
        let other = try nonces.issueCode(for: certificate, challenge: keys.hash(verifier), now: Self.now)
        #expect(try use(other, certificate, verifier) != first)
        // A nonce is no code, and a code no nonce.
        let bytes = try #require(Hexadecimal.decode(code))
        let nonce = try #require(IssuedNonce(Array(base64URL(bytes).utf8)))
        #expect(throws: EnrolmentFault.nonceRefused) { try nonces.singleUse(of: nonce, now: Self.now) }
    }

    @Test("parameters are decoded, and count if they occur once")
    func form() throws {
        let fields = FormFields(Array("code=a%2Bb%3d+c&code_verifier=1&code_verifier=2&userIdentifier=&token".utf8))
        #expect(fields[.code] == Array("a+b= c".utf8))
        for parameter in [DSRFault.Parameter.codeVerifier, .userIdentifier, .token, .deviceIdentifier] {
            #expect(fields[parameter] == nil)
            #expect(throws: EnrolmentFault.dsr(.constraint(parameter))) { try fields.required(parameter) }
        }
        #expect(throws: EnrolmentFault.dsr(.constraint(.code))) { try fields.required(.code, atMost: 5) }
        for broken in ["code=%2", "code=%", "code=%zz"] { #expect(FormFields(Array(broken.utf8))[.code] == nil) }
    }
}

@Suite("Errors of the reference system")
struct DSRErrorTests {
    @Test(
        "a refusal has the reference's status and code",
        arguments: [
            (EnrolmentFault.nonceRefused, 400, "NONCE_INVALID"), (.nonceExpired, 400, "NONCE_EXPIRED"),
            (.instanceKnown, 400, "DEVICE_ALREADY_REGISTERED"), (.keyRefused, 400, "DEVICE_ALREADY_REGISTERED"),
            (.dsr(.registration(isAbsent: true)), 404, "DEVICE_REGISTRATION_NOT_FOUND"),
            (.dsr(.registration(isAbsent: false)), 400, "DEVICE_REGISTRATION_NOT_FOUND"),
            (.dsr(.session), 400, "DEVICE_ATTESTATION_SESSION_NOT_FOUND"),
            (.denied(.deviceRevoked, detail: nil, component: nil), 400, "DEVICE_REGISTRATION_NOT_FOUND"),
            (.denied(.counterReplayed, detail: nil, component: nil), 400, "INVALID_COUNTER"),
            (.denied(.deviceRisky, detail: nil, component: nil), 400, "DEVICE_RISKY"),
            (.riskTooHigh, 400, "INTEGRITY_CHECK_ERROR"), (.systemOutdated, 400, "OS_OUTDATED"),
            (.attestation(.rpIDMismatch), 400, "INVALID_RP_ID"),
            (.assertion(.signatureInvalid), 400, "INVALID_SIGNATURE_FOR_NONCE"),
            (.keyAttestation(.challengeMismatch), 400, "NONCE_INVALID"),
            (.keyAttestation(.statusListMissing), 503, "TEMPORARILY_UNAVAILABLE"),
            (.storeUnavailable, 503, "TEMPORARILY_UNAVAILABLE"),
            (.checkFailed(CryptographyError(doing: "be tested")), 500, "INTERNAL_SERVER_ERROR"),
        ] as [(EnrolmentFault, UInt16, String)])
    func codes(_ fault: EnrolmentFault, _ status: UInt16, _ code: String) {
        #expect(DSRError(fault) == DSRError(status, code: code))
        let answer = EnrolmentResponse.dsrRefusal(fault, trace: "a")
        #expect(answer.status == status)
        #expect(String(decoding: answer.content, as: UTF8.self).hasPrefix(#"{"errorCode":"\#(code)","description":""#))
    }

    @Test("an answer has no detail of a fault of the service")
    func quiet() {
        let answer = EnrolmentResponse.dsrRefusal(.checkFailed(CryptographyError(doing: "hide this")), trace: "a")
        #expect(!String(decoding: answer.content, as: UTF8.self).contains("hide"))
    }

    @Test("a refusal has a UUID, which is in its line of the log")
    func trace() {
        let recorded = EnrolmentDecision(
            event: "register-device", device: nil, app: nil, target: nil, outcome: .refused(.dsr(.cardCount)),
            omitted: 0,
            trace: "b")
        #expect(recorded.members["trace"] == "b" && recorded.description.contains("trace=b"))
    }
}
