import Cryptography
import Encoding
import Foundation
import Testing
import TrustClient
import Vocabulary

@Suite("Steps of an enrolment")
struct EnrolmentExchangeTests {
    private static let now: Int64 = 1_790_000_000
    private static let point = [UInt8(4)] + [UInt8](repeating: 9, count: 64)
    private static let otherPoint = [UInt8(4)] + [UInt8](repeating: 8, count: 64)
    private static let service = EnrolmentServiceAddress(url: "https://enrol.example.org/gms")

    private func exchange(
        _ step: EnrolmentRecord.Step = .begun, form: ClientDataForm = .nonceAndTag, token: String? = nil
    ) throws -> EnrolmentExchange {
        let service = try #require(Self.service)
        let key = Sample.keyID.base64
        let form0 =
            switch step {
            case .begun: #"{"step":"begun""#
            case .keyMade: #"{"step":"key-made","hardware_key":"\#(key)""#
            case .attested: #"{"step":"attested","hardware_key":"\#(key)","initialization":"{}""#
            case .initialized: #"{"step":"initialized","hardware_key":"\#(key)""#
            case .bound: #"{"step":"bound","hardware_key":"\#(key)""#
            }
        let text = form0 + #","url":"\#(service.url)","provider":"\#(service.provider)"}"#
        let record = try #require(EnrolmentRecord(decoding: Array(text.utf8)))
        #expect(record.step == step)
        return EnrolmentExchange(record, point: Self.point, form: form, admissionToken: token)
    }

    private static let nonce = answer(200, #"{"nonce":"EBESExQVFhcYGRobHB0eHyAhIiMkJSYnKCkqKywtLi8"}"#)

    private static func answer(_ status: Int, _ content: String = "", date: String? = nil) -> EnrolmentAnswer {
        EnrolmentAnswer(status: status, date: date, content: Array(content.utf8))
    }

    private static func refusal(_ status: Int, _ code: String) -> EnrolmentAnswer {
        answer(status, #"{"error":"\#(code)","error_description":"no"}"#)
    }

    private func endpoint(_ action: EnrolmentExchange.Action) -> EnrolmentRequest.Endpoint? {
        if case .send(let request) = action { request.endpoint } else { nil }
    }

    private func advice(_ action: EnrolmentExchange.Action) -> EnrolmentAdvice? {
        if case .fail(.refused(_, let advice)) = action { advice } else { nil }
    }

    /// Runs the exchange up to the request with the key binding.
    private func binding(_ exchange: inout EnrolmentExchange) -> EnrolmentExchange.Action {
        guard case .assert = exchange.answered(Self.nonce, now: Self.now) else { return .fail(.signatureUnreadable) }
        _ = exchange.asserted(Self.assertion, now: Self.now)
        return exchange.signed(Self.signature)
    }

    /// {"authenticatorData": 37 bytes, "signature": 2 bytes}
    private static let assertion =
        [UInt8(0xa2), 0x71] + Array("authenticatorData".utf8) + [0x58, 37] + [UInt8](repeating: 1, count: 37) + [0x69]
        + Array("signature".utf8) + [0x42, 1, 2]
    /// r = 1, s = 2
    private static let signature: [UInt8] = [0x30, 6, 2, 1, 1, 2, 1, 2]

    @Test("a new phone makes a key, attests it, binds it, and sends each step")
    func whole() throws {
        var exchange = try exchange()
        #expect(exchange.begin() == .makeKey)
        let fetching = exchange.keyMade(Sample.keyID)
        guard case .send(let request) = fetching else { return #expect(Bool(false), "\(fetching)") }
        #expect(request.method == "GET" && request.url == "https://enrol.example.org/gms/nonce")
        #expect(exchange.record.step == .keyMade(Sample.keyID))
        guard case .attest(Sample.keyID, let hash) = exchange.answered(Self.nonce, now: Self.now) else { return }
        #expect(hash.count == 32)
        let sending = exchange.attested([1, 2, 3])
        guard case .send(let initialization) = sending else { return #expect(Bool(false), "\(sending)") }
        #expect(initialization.method == "POST")
        #expect(initialization.url == "https://enrol.example.org/gms/instance-initialization")
        #expect(
            initialization.content.map(Sample.text)
                == #"{"nonce":"EBESExQVFhcYGRobHB0eHyAhIiMkJSYnKCkqKywtLi8","hardware_key_tag":"\#(tag)","#
                + #""key_attestation":"AQID"}"#)
        #expect(exchange.record.step == .attested(Sample.keyID, initialization: initialization.content ?? []))
        #expect(endpoint(exchange.answered(Self.answer(204), now: Self.now)) == .nonce)
        #expect(exchange.record.step == .initialized(Sample.keyID))
        #expect(endpoint(binding(&exchange)) == .keyBinding)
        let certificate = Self.certificate(of: Self.point)
        guard case .finish(let enrolled) = exchange.answered(certificate, now: Self.now) else { return }
        #expect(enrolled.expiresAt == 1_790_000_300 && enrolled.chain.count == 2)
        #expect(exchange.record.step == .bound(Sample.keyID))
    }

    private var tag: String { "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc" }

    /// Returns two "certificates", the first of which contains a key.
    private static func certificate(of point: [UInt8]) -> EnrolmentAnswer {
        let leaf = Data([0x30, 0x30] + point + [0x30]).base64EncodedString()
        return answer(200, #"{"certificate_chain":["\#(leaf)","AAAA"],"expires_at":1790000300}"#)
    }

    @Test("a certificate for another key is refused")
    func foreign() throws {
        var exchange = try exchange(.initialized(Sample.keyID))
        _ = exchange.begin()
        _ = binding(&exchange)
        let other = Self.certificate(of: Self.otherPoint)
        #expect(exchange.answered(other, now: Self.now) == .fail(.certificateForeign))
        #expect(exchange.record.step == .initialized(Sample.keyID))
    }

    // MARK: - Continuation

    @Test("completed steps are not repeated")
    func goesOn() throws {
        var made = try exchange(.keyMade(Sample.keyID))
        #expect(endpoint(made.begin()) == .nonce)
        var attested = try exchange(.attested(Sample.keyID, initialization: Array("{}".utf8)))
        guard case .send(let request) = attested.begin() else { return #expect(Bool(false)) }
        #expect(request.endpoint == .initialization && request.content == Array("{}".utf8))
        for step in [EnrolmentRecord.Step.initialized(Sample.keyID), .bound(Sample.keyID)] {
            var exchange = try exchange(step)
            #expect(endpoint(exchange.begin()) == .nonce)
            #expect(endpoint(binding(&exchange)) == .keyBinding)
        }
    }

    @Test("after a refused repeated initialization the key binding is tried, then a new key")
    func repetitionRefused() throws {
        var exchange = try exchange(.attested(Sample.keyID, initialization: Array("{}".utf8)))
        _ = exchange.begin()
        let refused = exchange.answered(Self.refusal(403, "invalid_request"), now: Self.now)
        #expect(endpoint(refused) == .nonce)
        _ = binding(&exchange)
        #expect(exchange.answered(Self.refusal(404, "not_found"), now: Self.now) == .provideKey)
        #expect(exchange.keyProvided(Self.otherPoint) == .makeKey)
        #expect(exchange.record.step == .begun)
    }

    @Test("after a refused first initialization a new key is tried once")
    func initializationRefused() throws {
        var exchange = try exchange(.keyMade(Sample.keyID))
        _ = exchange.begin()
        for round in 0..<2 {
            _ = exchange.answered(Self.nonce, now: Self.now)
            _ = exchange.attested([1])
            let action = exchange.answered(Self.refusal(403, "invalid_request"), now: Self.now)
            if round == 0 {
                #expect(action == .makeKey)
                _ = exchange.keyMade(Sample.keyID)
            } else {
                #expect(advice(action) == .giveUp)
            }
        }
    }

    @Test("a refused key binding is retried once with a new nonce")
    func bindingRefused() throws {
        var exchange = try exchange(.bound(Sample.keyID))
        _ = exchange.begin()
        _ = binding(&exchange)
        #expect(endpoint(exchange.answered(Self.refusal(403, "invalid_request"), now: Self.now)) == .nonce)
        _ = binding(&exchange)
        #expect(advice(exchange.answered(Self.refusal(403, "invalid_request"), now: Self.now)) == .giveUp)
        #expect(exchange.record.step == .bound(Sample.keyID), "a revoked phone does not start over by itself")
    }

    @Test(
        "the code decides what follows a refusal",
        arguments: [
            (500, "server_error", EnrolmentAdvice.later), (503, "temporarily_unavailable", .later),
            (403, "integrity_check_error", .update), (400, "bad_request", .giveUp), (422, "validation_error", .giveUp),
        ])
    func advice(status: Int, code: String, expected: EnrolmentAdvice) throws {
        for step in [
            EnrolmentRecord.Step.attested(Sample.keyID, initialization: Array("{}".utf8)), .initialized(Sample.keyID),
        ] {
            var exchange = try exchange(step)
            _ = exchange.begin()
            if step == .initialized(Sample.keyID) { _ = binding(&exchange) }
            let action = exchange.answered(Self.refusal(status, code), now: Self.now)
            #expect(advice(action) == expected)
            let isUseless = expected == .update && step != .initialized(Sample.keyID)
            #expect(exchange.record.step == (isUseless ? .begun : step), "an updated app gets a new attestation")
        }
    }

    @Test("a system that is too old ends the exchange; the next begins with a new key, for what was attested stays old")
    func systemOutdated() throws {
        var exchange = try exchange(.keyMade(Sample.keyID))
        _ = exchange.begin()
        _ = exchange.answered(Self.nonce, now: Self.now)
        _ = exchange.attested([1])
        let action = exchange.answered(Self.refusal(403, "os_outdated"), now: Self.now)
        #expect(advice(action) == .updateSystem)
        #expect(exchange.record.step == .begun)
    }

    @Test("a key that was attested on a system that is now too old is replaced, once: the system may have been updated")
    func attestedBeforeTheUpdate() throws {
        var exchange = try exchange(.bound(Sample.keyID))
        _ = exchange.begin()
        _ = binding(&exchange)
        #expect(exchange.answered(Self.refusal(403, "os_outdated"), now: Self.now) == .provideKey)
        #expect(exchange.keyProvided(Self.otherPoint) == .makeKey)
        #expect(exchange.record.step == .begun)
        _ = exchange.keyMade(Sample.keyID)
        _ = exchange.answered(Self.nonce, now: Self.now)
        _ = exchange.attested([1])
        #expect(advice(exchange.answered(Self.refusal(403, "os_outdated"), now: Self.now)) == .updateSystem)
        #expect(exchange.record.step == .begun)
    }

    @Test("an attestation that was sent before, its answer lost, may be older than the system's update")
    func repeatedBeforeTheUpdate() throws {
        var exchange = try exchange(.attested(Sample.keyID, initialization: Array("{}".utf8)))
        _ = exchange.begin()
        #expect(exchange.answered(Self.refusal(403, "os_outdated"), now: Self.now) == .provideKey)
        #expect(exchange.keyProvided(Self.otherPoint) == .makeKey)
        #expect(exchange.record.step == .begun)
    }

    @Test("a client that waits for approval learns when to retry and keeps its state")
    func approval() throws {
        var exchange = try exchange(.initialized(Sample.keyID))
        _ = exchange.begin()
        _ = binding(&exchange)
        let answer = EnrolmentAnswer(
            status: 403, date: nil, retryAfter: "60", content: Array(#"{"error":"invalid_request"}"#.utf8))
        let action = exchange.answered(answer, now: Self.now)
        #expect(
            action
                == .fail(
                    .refused(
                        EnrolmentRefusal(status: 403, code: .invalidRequest, retryAfter: 60), advice: .awaitApproval)))
        #expect(exchange.record.step == .initialized(Sample.keyID))
    }

    @Test(
        "a proxy's answer decides nothing about the enrolment",
        arguments: [(502, EnrolmentAdvice.later), (429, .later), (404, .giveUp)])
    func proxies(status: Int, expected: EnrolmentAdvice) throws {
        var exchange = try exchange(.initialized(Sample.keyID))
        _ = exchange.begin()
        #expect(advice(exchange.answered(Self.answer(status, "<html>"), now: Self.now)) == expected)
    }

    @Test("answers of another form are errors")
    func unreadable() throws {
        for content in ["", "{}", #"{"nonce":""}"#, #"{"nonce":"a\"b"}"#, #"{"nonce":"short"}"#, #"{"nonce":1}"#] {
            var exchange = try exchange(.initialized(Sample.keyID))
            _ = exchange.begin()
            #expect(exchange.answered(Self.answer(200, content), now: Self.now) == .fail(.answerUnreadable(.nonce)))
        }
        for content in [
            "{}", #"{"certificate_chain":[],"expires_at":1}"#, #"{"certificate_chain":["!"],"expires_at":1}"#,
        ] {
            var exchange = try exchange(.initialized(Sample.keyID))
            _ = exchange.begin()
            _ = binding(&exchange)
            #expect(
                exchange.answered(Self.answer(200, content), now: Self.now) == .fail(.answerUnreadable(.keyBinding)))
        }
    }

    // MARK: - The platform

    @Test("an unusable key is replaced once; other platform errors end the exchange")
    func attestor() throws {
        var exchange = try exchange(.keyMade(Sample.keyID))
        _ = exchange.begin()
        _ = exchange.answered(Self.nonce, now: Self.now)
        #expect(exchange.attestorFailed(.keyLost) == .makeKey)
        _ = exchange.keyMade(Sample.keyID)
        _ = exchange.answered(Self.nonce, now: Self.now)
        #expect(exchange.attestorFailed(.keyLost) == .fail(.attestor(.keyLost)))
        for fault in [AttestorFault.unavailable, .unsupported] {
            var exchange = try self.exchange(.keyMade(Sample.keyID))
            _ = exchange.begin()
            _ = exchange.answered(Self.nonce, now: Self.now)
            #expect(exchange.attestorFailed(fault) == .fail(.attestor(fault)))
            #expect(exchange.record.step == .keyMade(Sample.keyID), "it may be attested later")
        }
    }

    @Test("a new hardware key gets a new certificate key once the other may be bound, and no earlier")
    func certificateKey() throws {
        for step in [
            EnrolmentRecord.Step.attested(Sample.keyID, initialization: Array("{}".utf8)), .initialized(Sample.keyID),
            .bound(Sample.keyID),
        ] {
            var exchange = try exchange(step)
            _ = exchange.begin()
            #expect(exchange.attestorFailed(.keyLost) == .provideKey)
            #expect(exchange.record.step == step, "an app that ends before it has the key asks again")
            #expect(exchange.keyProvided(Self.otherPoint, admissionToken: "YQ.YQ.YQ") == .makeKey)
            #expect(exchange.record.step == .begun)
            _ = exchange.keyMade(Sample.keyID)
            _ = exchange.answered(Self.nonce, now: Self.now)
            _ = exchange.attested([1])
            _ = exchange.answered(Self.answer(204), now: Self.now)
            _ = binding(&exchange)
            guard case .finish = exchange.answered(Self.certificate(of: Self.otherPoint), now: Self.now) else {
                Issue.record("the certificate is for the new key")
                continue
            }
        }
        var exchange = try exchange(.initialized(Sample.keyID))
        _ = exchange.begin()
        _ = exchange.attestorFailed(.keyLost)
        #expect(exchange.keyProvided(Self.otherPoint, admissionToken: "a.b") == .fail(.admissionTokenMalformed))
    }

    @Test("a malformed assertion or signature ends the exchange")
    func signatures() throws {
        let wrong: [[UInt8]] = [
            [], [0xa0], Array(Self.assertion.dropLast()), Self.assertion + [0], [0xbf] + Self.assertion.dropFirst(),
            [0xa1] + Self.assertion.dropFirst().prefix(57),
            [0xa2, 0x9b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        ]
        for assertion in wrong {
            var exchange = try exchange(.initialized(Sample.keyID))
            _ = exchange.begin()
            _ = exchange.answered(Self.nonce, now: Self.now)
            #expect(exchange.asserted(assertion, now: Self.now) == .fail(.signatureUnreadable), "\(assertion)")
        }
        var exchange = try exchange(.initialized(Sample.keyID))
        _ = exchange.begin()
        _ = exchange.answered(Self.nonce, now: Self.now)
        _ = exchange.asserted(Self.assertion, now: Self.now)
        #expect(exchange.signed([1, 2, 3]) == .fail(.signatureUnreadable))
    }

    @Test("the token's time is corrected by the service's Date")
    func clock() throws {
        for (date, expected) in [(String?.none, Self.now), ("Sun, 20 Sep 2026 10:13:20 GMT", 1_789_899_200)] {
            var exchange = try exchange(.initialized(Sample.keyID))
            _ = exchange.begin()
            _ = exchange.answered(
                Self.answer(200, #"{"nonce":"EBESExQVFhcYGRobHB0eHyAhIiMkJSYnKCkqKywtLi8"}"#, date: date), now: Self.now
            )
            #expect(Self.now + exchange.clockOffset == expected)
        }
    }

    @Test("an admission token that JSON cannot hold unescaped is refused at the start")
    func token() throws {
        for token in [
            "", "a", "a.b", #"a.b.c""#, "a.b.c.d", "YQ.YQ.Y Q", String(repeating: "AAAA", count: 2_048) + ".A.A",
        ] {
            var exchange = try exchange(token: token)
            #expect(exchange.begin() == .fail(.admissionTokenMalformed), "\(token.prefix(20))")
        }
        var exchange = try exchange(token: "YQ.YQ.YQ")
        #expect(exchange.begin() == .makeKey)
    }
}

@Suite("Steps of an Android phone's enrolment")
struct AndroidEnrolmentTests {
    private static let now: Int64 = 1_790_000_000
    private static let point = [UInt8(4)] + [UInt8](repeating: 9, count: 64)
    private static let nonceText = "EBESExQVFhcYGRobHB0eHyAhIiMkJSYnKCkqKywtLi8"
    private static let nonce = EnrolmentAnswer(
        status: 200, date: nil, content: Array(#"{"nonce":"\#(nonceText)"}"#.utf8))
    /// 16 bytes.
    private static let tag = [UInt8](repeating: 5, count: 16)
    private static let tagText = "BQUFBQUFBQUFBQUFBQUFBQ"

    private func exchange(_ form: ClientDataForm = .nonceAndTag) throws -> EnrolmentExchange {
        let service = try #require(EnrolmentServiceAddress(url: "https://enrol.example.org"))
        var exchange = EnrolmentExchange(EnrolmentRecord(service: service), point: Self.point, form: form)
        #expect(exchange.begin() == .makeKey)
        _ = exchange.keyMade(Sample.keyID, tag: Self.tag)
        return exchange
    }

    private static func sha256(_ bytes: [UInt8]) -> [UInt8] { Digest256.sha256(of: bytes.span).bytes }

    private func content(_ action: EnrolmentExchange.Action) throws -> [UInt8] {
        guard case .send(let request) = action else { throw CancellationError() }
        return request.content ?? []
    }

    @Test("the challenge has the form that the service expects of Android phones")
    func challenge() throws {
        for (form, expected) in [
            (ClientDataForm.nonceAndTag, Self.sha256(Array((Self.nonceText + Self.tagText).utf8))),
            (.nonce, Array(Self.nonceText.utf8)),
            (.dsr, Self.sha256([UInt8](16..<48) + Array("KEYPAIR_MTLS".utf8))),
        ] {
            var exchange = try exchange(form)
            #expect(
                exchange.answered(Self.nonce, now: Self.now) == .attest(Sample.keyID, clientDataHash: expected),
                "\(form)")
        }
    }

    @Test("the certificates are sent as an array, with the tag that the app has chosen")
    func initialization() throws {
        var exchange = try exchange()
        _ = exchange.answered(Self.nonce, now: Self.now)
        let sent = try content(exchange.attested(.certificates([[1, 2, 3], [4]])))
        #expect(
            Sample.text(sent)
                == #"{"nonce":"\#(Self.nonceText)","hardware_key_tag":"\#(Self.tagText)","#
                + #""key_attestation":["AQID","BA"]}"#)
    }

    @Test("the record keeps the tag as long as its key")
    func record() throws {
        var exchange = try exchange()
        #expect(exchange.record.chosenTag == Self.tag)
        #expect(EnrolmentRecord(decoding: try exchange.record.encoded()) == exchange.record)
        _ = exchange.answered(Self.nonce, now: Self.now)
        #expect(exchange.attestorFailed(.keyLost) == .makeKey)
        #expect(exchange.record.chosenTag == nil)
    }

    @Test("the hardware key signs nonce, thumbprint and counter; the token carries counter and certificate key's chain")
    func binding() throws {
        for (chain, expected) in [([[1, 2, 3]], #","mtls_key_attestation":["AQID"]"#), (nil, "")]
            as [([[UInt8]]?, String)]
        {
            var exchange = try exchange()
            _ = exchange.answered(Self.nonce, now: Self.now)
            _ = exchange.attested(.certificates([[1]]))
            _ = exchange.answered(EnrolmentAnswer(status: 204, date: nil, content: []), now: Self.now)
            guard case .assert(Sample.keyID, let data) = exchange.answered(Self.nonce, now: Self.now) else {
                Issue.record("nothing to sign")
                return
            }
            let thumbprint = try #require(
                Sample.text(data.message(counter: 7)).firstMatch(
                    of: /\{"nonce":"EBES[^"]*","jwk_thumbprint":"([^"]*)","counter":7\}/)?.1)
            #expect(data.certificateKeyChallenge == Self.sha256(Array((Self.nonceText + Self.tagText).utf8)))
            let signing = exchange.asserted(
                .signature([1, 2], counter: 7, certificateKey: chain), now: Self.now)
            guard case .sign(let input) = signing else {
                Issue.record("\(signing)")
                return
            }
            let payload = Sample.text(input).split(separator: ".")[1]
            let text = Sample.text(try #require(Base64URL.decode(String(payload))))
            #expect(text.hasPrefix(#"{"iss":"https://enrol.example.org/instance/\#(thumbprint)","#))
            #expect(
                text.contains(
                    #""hardware_key_tag":"\#(Self.tagText)","hardware_signature":"AQI","counter":7\#(expected),"cnf":"#)
            )
            #expect(!text.contains(#""key_attestation":"#))
        }
    }
}

@Suite("The enrolment record of an app")
struct EnrolmentRecordTests {
    @Test("a record is read as written")
    func roundTrip() throws {
        let service = try #require(
            EnrolmentServiceAddress(url: "https://a.example:8444/x", provider: "https://b.example"))
        var record = EnrolmentRecord(service: service)
        #expect(EnrolmentRecord(decoding: try record.encoded()) == record)
        let key = Sample.keyID.base64
        for (step, more) in [
            ("key-made", ""), ("attested", #","initialization":"{\"nonce\":\"a\"}""#), ("initialized", ""),
            ("bound", ""),
        ] {
            let text =
                #"{"hardware_key":"\#(key)"\#(more),"provider":"https://b.example","step":"\#(step)","#
                + #""url":"https://a.example:8444/x"}"#
            record = try #require(EnrolmentRecord(decoding: Array(text.utf8)))
            #expect(Sample.text(try record.encoded()) == text)
            #expect(record.hardwareKeyID == Sample.keyID && record.isBound == (step == "bound"))
        }
    }

    @Test("a malformed record is refused")
    func damaged() {
        let whole = #"{"provider":"https://b.example","step":"begun","url":"https://a.example"}"#
        #expect(EnrolmentRecord(decoding: Array(whole.utf8)) != nil)
        for (part, other) in [
            ("begun", "bound"), ("begun", "over"), ("https://a.example", "http://a.example"), ("}", ""),
            ("}", #","hardware_key":"AAAA"}"#), ("}", #","attested_point":"AAAA"}"#),
            ("}", #","hardware_key_tag":"BQUFBQUFBQUFBQUFBQUFBQ"}"#),
            (#""begun""#, #""key-made","hardware_key":"\#(Sample.keyID.base64)","hardware_key_tag":"AAAA""#),
        ] {
            let text = whole.replacing(part, with: other)
            #expect(EnrolmentRecord(decoding: Array(text.utf8)) == nil, "\(text)")
        }
    }

    @Test("the URL of a service has one spelling")
    func services() {
        for url in ["https://a", "https://a.example:8444/gms/%7Ex", "https://[::1]:8444/"] {
            #expect(EnrolmentServiceAddress(url: url)?.provider == (url.hasSuffix("/") ? String(url.dropLast()) : url))
        }
        for url in [
            "", "https://", "http://a", "https://a//", "https://a?b", "https://a#b", "https://a/\"", "HTTPS://a",
        ] {
            #expect(EnrolmentServiceAddress(url: url) == nil, "\(url)")
        }
    }
}
