import Cryptography
import EventLoop
import Registry
import Testing
import Vocabulary

@testable import Enrolment

@Suite("The key binding service")
struct KeyBindingServiceTests {
    @Test("a bound key gets its certificate, and the device becomes active")
    func first() throws {
        let service = try TestService()
        let hardwareKey = try service.keys.generate()
        try service.register(hardwareKey)
        let draft = try service.draft(hardwareKey, counter: 1)
        let answer = try service.bind(draft)
        #expect(answer.status == 200, "\(answer)")
        #expect(answer.content.contains(#""certificate_chain":[""#))
        let device = try service.device(hardwareKey)
        #expect(device.device.state == .active)
        #expect(device.device.highestCounter == 1)
        #expect(device.bindings.map(\.key) == [try service.keys.keyID(draft.newKey.point)])
        #expect(service.decisions.count == 1)
        #expect(service.decisions[0].hasPrefix("key-binding decision=granted what=first serial="))
        #expect(service.metrics.certificatesIssued == 1)
    }

    @Test("a refused binding leaves nonce and counter unchanged")
    func refusedLeavesAll() throws {
        let service = try TestService()
        let hardwareKey = try service.keys.generate()
        try service.register(hardwareKey)
        let nonce = try service.nonce()
        var wrong = try service.draft(hardwareKey, counter: 1, nonce: nonce)
        wrong.signer = hardwareKey
        #expect(try service.bind(wrong).status == 403)
        #expect(try service.bind(service.draft(hardwareKey, counter: 1, nonce: nonce)).status == 200)
    }

    @Test("a nonce binds once, and an unknown nonce is refused")
    func nonces() throws {
        let service = try TestService()
        let hardwareKey = try service.keys.generate()
        try service.register(hardwareKey)
        let nonce = try service.nonce()
        #expect(try service.bind(service.draft(hardwareKey, counter: 1, nonce: nonce)).status == 200)
        let again = try service.bind(service.draft(hardwareKey, counter: 2, nonce: nonce))
        #expect((again.status, again.error) == (403, "invalid_request"))
        #expect(again.content.contains("the nonce is unknown, expired or used"))
        let foreign = try service.draft(hardwareKey, counter: 3, nonce: KeyBindingDraft.nonce)
        #expect(try service.bind(foreign).status == 403)
    }

    @Test("a counter value binds once")
    func counters() throws {
        let service = try TestService()
        let hardwareKey = try service.keys.generate()
        try service.register(hardwareKey)
        #expect(try service.bind(service.draft(hardwareKey, counter: 5)).status == 200)
        #expect(try service.bind(service.draft(hardwareKey, counter: 5)).status == 403)
        #expect(try service.bind(service.draft(hardwareKey, counter: 6)).status == 200)
    }

    @Test("a repeated request for the same key gets the lost answer again")
    func renewal() throws {
        let service = try TestService()
        let hardwareKey = try service.keys.generate()
        try service.register(hardwareKey)
        let draft = try service.draft(hardwareKey, counter: 1)
        #expect(try service.bind(draft).status == 200)
        let again = try service.draft(hardwareKey, counter: 2, newKey: draft.newKey)
        #expect(try service.bind(again).status == 200)
        #expect(try service.device(hardwareKey).bindings.count == 1)
        #expect(service.decisions[1].contains("what=renewal"))
    }

    @Test("a new key replaces the old one after the overlap")
    func rotation() throws {
        let service = try TestService { $0.rotationOverlap = 3_600 }
        let hardwareKey = try service.keys.generate()
        try service.register(hardwareKey)
        let old = try service.draft(hardwareKey, counter: 1)
        #expect(try service.bind(old).status == 200)
        #expect(try service.bind(service.draft(hardwareKey, counter: 2)).status == 200)
        let bindings = try service.device(hardwareKey).bindings
        let oldKey = try service.keys.keyID(old.newKey.point)
        let replaced = try #require(bindings.first { $0.key == oldKey })
        #expect(replaced.isActive)
        #expect(replaced.endsAt.map { $0 > WallClock.seconds + 3_500 } == true)
        #expect(bindings.count == 2)
        #expect(bindings.first { $0.key != oldKey }?.endsAt == nil)
        // The old key cannot replace its successor.
        let back = try service.draft(hardwareKey, counter: 3, newKey: old.newKey)
        #expect(try service.bind(back).status == 403)
    }

    @Test("an unknown instance is not found; a revoked one or another environment is refused")
    func instances() throws {
        let service = try TestService()
        let hardwareKey = try service.keys.generate()
        let unknown = try service.bind(service.draft(hardwareKey, counter: 1))
        #expect((unknown.status, unknown.error) == (404, "not_found"))
        try service.register(hardwareKey)
        _ = try service.perform(.revoke(service.device(hardwareKey).device.id))
        let revoked = try service.bind(service.draft(hardwareKey, counter: 1))
        #expect((revoked.status, revoked.error) == (403, "invalid_request"))
        #expect(revoked.content.contains("the app instance is revoked"))
        let simulated = try service.keys.generate()
        try service.register(simulated, environment: .simulator)
        let other = try service.bind(service.draft(simulated, counter: 1))
        #expect((other.status, other.error) == (403, "invalid_request"))
    }

    @Test("an assertion of another hardware key is refused")
    func foreignAssertion() throws {
        let service = try TestService()
        let (mine, other) = (try service.keys.generate(), try service.keys.generate())
        try service.register(mine)
        try service.register(other)
        var draft = try service.draft(mine, counter: 1)
        let id = try #require(try service.keys.keyID(other.point))
        draft.claims["hardware_key_tag"] = quoted(base64URL(id.bytes))
        let answer = try service.bind(draft)
        #expect((answer.status, answer.error) == (403, "invalid_request"))
        #expect(answer.content.contains("signature does not verify"))
    }

    @Test("a key bound to one device is refused for another")
    func keyOfAnother() throws {
        let service = try TestService()
        let (mine, other) = (try service.keys.generate(), try service.keys.generate())
        try service.register(mine)
        try service.register(other)
        let draft = try service.draft(mine, counter: 1)
        #expect(try service.bind(draft).status == 200)
        #expect(try service.bind(service.draft(other, counter: 1, newKey: draft.newKey)).status == 403)
    }

    @Test("in the form dsr the first key must be the attested one")
    func attestedKey() throws {
        let service = try TestService()
        let hardwareKey = try service.keys.generate()
        let attested = try service.keys.generate()
        try service.register(hardwareKey, attestedFor: try service.keys.keyID(attested.point))
        #expect(try service.bind(service.draft(hardwareKey, counter: 1)).status == 403)
        #expect(try service.bind(service.draft(hardwareKey, counter: 2, newKey: attested)).status == 200)
        #expect(try service.bind(service.draft(hardwareKey, counter: 3)).status == 200, "later ones rotate")
    }

    @Test("with admission by approval a device waits and learns when to ask again")
    func approval() throws {
        let service = try TestService { $0.admission = .approval }
        let hardwareKey = try service.keys.generate()
        try service.register(hardwareKey)
        let waiting = try service.bind(service.draft(hardwareKey, counter: 1))
        #expect((waiting.status, waiting.error) == (403, "invalid_request"))
        #expect(waiting.has("Retry-After: 60"))
        _ = try service.perform(.approve(service.device(hardwareKey).device.id))
        #expect(try service.bind(service.draft(hardwareKey, counter: 2)).status == 200)
    }

    @Test("nothing is bound when no certificate can be issued")
    func issuingFails() throws {
        // The CA's own certificate has expired: it was valid for 300 s in the past.
        let service = try TestService { settings in
            guard let library = try? LibraryContext(), let key = try? PrivateKey.generateP256(library),
                let issuer = try? CertificateIssuer.selfSigned(commonName: "old", lifetime: -100, key: key, library),
                let certificate = try? issuer.certificate.pem(), let pem = try? key.pem()
            else { return }
            settings.authority = AuthoritySource(certificate: certificate, key: pem, passphrase: nil)
        }
        let hardwareKey = try service.keys.generate()
        try service.register(hardwareKey)
        let answer = try service.bind(service.draft(hardwareKey, counter: 1))
        #expect((answer.status, answer.error) == (500, "server_error"))
        #expect(try service.device(hardwareKey).bindings.isEmpty)
        #expect(service.decisions[0].contains("error=server_error"))
    }
}
