import Attestation
import Cryptography
import Glibc
import Testing

@testable import Enrolment
@testable import Upstream

@Suite("Requests for a newer receipt")
struct RefreshCallTests {
    private let keys: Keys

    init() throws { keys = try Keys() }

    private func token(_ key: PrivateKey) throws -> RefreshToken {
        try RefreshToken(team: "A1B2C3D4E5", keyID: "ABCDE12345", pem: key.pem(), keys.library)
    }

    @Test("the token is ES256 and names key, team and time, and nothing else")
    func token() throws {
        let key = try PrivateKey.generateP256(keys.library)
        var token = try token(key)
        let text = try token.text(now: 1_790_000_000)
        let jws = try CompactJWS(Array(text.utf8))
        #expect(jws.header.hasOnly(["alg", "kid"]) && jws.payload.hasOnly(["iss", "iat"]))
        #expect(jws.header["alg"]?.spells("ES256") == true && jws.header["kid"]?.spells("ABCDE12345") == true)
        #expect(jws.payload["iss"]?.spells("A1B2C3D4E5") == true && jws.payload["iat"]?.integer == 1_790_000_000)
        let point = try P256SigningKey(key, keys.library).point
        let verification = try P256VerificationKey(point: point.span, keys.library)
        #expect(try jws.isSigned(by: verification, keys.library))
    }

    @Test("one token serves for twenty minutes, and is replaced when the clock goes back")
    func tokenLife() throws {
        var token = try token(PrivateKey.generateP256(keys.library))
        let first = try token.text(now: 10_000)
        let same = try token.text(now: 10_000 + 1_199)
        #expect(same == first)
        let second = try token.text(now: 10_000 + 1_200)
        #expect(second != first)
        let back = try token.text(now: 9_999)
        #expect(back != second)
    }

    @Test("a missing key or one of another curve is refused")
    func otherKey() throws {
        #expect(throws: CryptographyError.self) { try token(PrivateKey.generateP384(keys.library)) }
        #expect(throws: CryptographyError.self) {
            try RefreshToken(team: "A1B2C3D4E5", keyID: "ABCDE12345", pem: Array("rubbish".utf8), keys.library)
        }
    }

    @Test("DER signatures of every length become 64 bytes and back", arguments: 0..<200)
    func widths(_: Int) throws {
        let key = try keys.generate()
        let message: [UInt8] = [1, 2, 3]
        let der = try key.sign(digest: keys.library.sha256(of: message.span))
        let made = ECDSASignature.fixedWidth(der: der.span)
        let fixed = try #require(made)
        #expect(fixed.count == 64)
        let back = ECDSASignature.der(fixedWidth: fixed.span)
        #expect(back == der)
    }

    @Test("malformed DER signatures are refused")
    func noSignature() {
        let all: [[UInt8]] = [
            [], [0x30], [0x30, 0], [0x30, 3, 2, 1, 1], [0x31, 6, 2, 1, 1, 2, 1, 1], [0x30, 7, 2, 1, 1, 2, 1, 1, 0],
            [0x30, 6, 2, 1, 1, 3, 1, 1], [0x30, 6, 2, 9, 1, 2, 1, 1], [0x30, 5, 2, 0, 2, 1, 1],
            [0x30, 38] + [2, 33] + [UInt8](repeating: 1, count: 33) + [2, 1, 1],
        ]
        for bytes in all {
            let fixed = ECDSASignature.fixedWidth(der: bytes.span)
            #expect(fixed == nil, "\(bytes)")
        }
    }

    private func answer(_ status: UInt16, _ content: String = "", retryAfter: Int64? = nil) -> RefreshAnswer {
        var answer = OutboundAnswer()
        answer.status = status
        answer.content = Array(content.utf8)
        answer.retryAfter = retryAfter
        return RefreshAnswer(.success(answer))
    }

    @Test("each of Apple's statuses has its meaning, and every other one is a failure")
    func statuses() {
        #expect(answer(200, "AQID") == .receipt([1, 2, 3]))
        #expect(answer(200, "\r\n AQID \n") == .receipt([1, 2, 3]))
        #expect(answer(304) == .unchanged)
        #expect(answer(400) == .malformed)
        #expect(answer(401) == .tokenRefused)
        #expect(answer(404) == .unknown)
        #expect(answer(429, retryAfter: 7) == .tooMany(retryAfter: 7))
        #expect(
            answer(500) == .failed("server_error: status 500") && answer(503) == .failed("server_error: status 503"))
        for status: UInt16 in [201, 204, 301, 302, 307, 403, 418] {
            #expect(answer(status, "AQID") == .failed("unexpected_status: \(status)"))
        }
    }

    @Test(
        "content that is no receipt is a failure", arguments: ["", " ", "AQI", "AQID!", "A QID", "AQID\0", "{\"a\":1}"])
    func rubbish(_ content: String) {
        #expect(answer(200, content) == .failed("no_receipt: the content is not Base64"))
    }

    @Test("a missing answer is a failure with its cause")
    func noAnswer() {
        #expect(RefreshAnswer(.failure(.timeout)) == .failed("timeout"))
        #expect(RefreshAnswer(.failure(.tooLarge)) == .failed("too_large"))
        #expect(
            RefreshAnswer(.failure(.upstream(.unreachable(server: "127.0.0.1:9", errno: ECONNREFUSED))))
                == .failed("unreachable: connecting to 127.0.0.1:9 failed: Connection refused"))
    }
}
