import Challenges
import Cryptography
import Testing

@Suite("Challenges")
struct ChallengeIssuerTests {
    private let library: LibraryContext

    init() throws { library = try LibraryContext() }

    private static let now: UInt64 = 1_763_690_000
    private static let life: UInt64 = 300

    private func secret(_ generation: UInt8 = 1, filledWith byte: UInt8 = 0x5a) -> ChallengeSecret? {
        ChallengeSecret(generation: generation, bytes: [UInt8](repeating: byte, count: 32))
    }

    private func scope(
        _ purpose: ChallengePurpose = .request, store: [UInt8] = Array(0..<16), epoch: [UInt8] = Array(16..<32)
    ) -> ChallengeScope? {
        ChallengeScope(purpose: purpose, store: store, epoch: epoch)
    }

    private func issuer(
        _ scope: ChallengeScope? = nil, current: ChallengeSecret? = nil, previous: ChallengeSecret? = nil
    ) throws -> ChallengeIssuer {
        try ChallengeIssuer(
            #require(scope ?? self.scope()), current: #require(current ?? secret()), previous: previous, library)
    }

    private func issue(_ issuer: ChallengeIssuer, now: UInt64 = now) throws -> [UInt8] {
        let challenge = try issuer.issue(now: now)
        return challenge.span.indices.map { challenge.span[$0] }
    }

    private func verdict(
        _ issuer: ChallengeIssuer, _ text: [UInt8], now: UInt64 = now, life: UInt64 = life
    ) throws -> ChallengeVerdict {
        try issuer.verify(text.span, now: now, life: life)
    }

    private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)

    @Test("a challenge is fresh at the gateway and time where it was made")
    func fresh() throws {
        let issuer = try issuer()
        let text = try issue(issuer)
        #expect(text.count == Challenge.length)
        #expect(text.allSatisfy { Self.alphabet.contains($0) })
        #expect(try verdict(issuer, text) == .fresh(issuedAt: Self.now, pastHalfLife: false))
    }

    @Test("two gateways with the same secret and store accept each other's challenges")
    func shared() throws {
        let text = try issue(issuer())
        #expect(try verdict(issuer(), text) == .fresh(issuedAt: Self.now, pastHalfLife: false))
    }

    @Test("challenges of the same second differ")
    func unpredictable() throws {
        let issuer = try issuer()
        let texts = try (0..<100).map { _ in try issue(issuer) }
        #expect(Set(texts).count == texts.count)
    }

    @Test("a challenge past half its life is due for replacement")
    func halfLife() throws {
        let issuer = try issuer()
        let text = try issue(issuer)
        #expect(try verdict(issuer, text, now: Self.now + 150) == .fresh(issuedAt: Self.now, pastHalfLife: false))
        #expect(try verdict(issuer, text, now: Self.now + 151) == .fresh(issuedAt: Self.now, pastHalfLife: true))
    }

    @Test("a challenge expires exactly at the end of its life, and stays expired")
    func expired() throws {
        let issuer = try issuer()
        let text = try issue(issuer)
        let last = Self.now + Self.life
        #expect(try verdict(issuer, text, now: last - 1) == .fresh(issuedAt: Self.now, pastHalfLife: true))
        for now in [last, last + 1, last + 1_000_000, UInt64.max] {
            #expect(try verdict(issuer, text, now: now) == .expired(issuedAt: Self.now))
        }
        #expect(try verdict(issuer, text, life: 0) == .expired(issuedAt: Self.now))
    }

    @Test("a challenge from the future is admitted up to a minute ahead")
    func future() throws {
        let issuer = try issuer()
        let text = try issue(issuer)
        #expect(try verdict(issuer, text, now: Self.now - 60) == .fresh(issuedAt: Self.now, pastHalfLife: false))
        for now in [Self.now - 61, 0] {
            #expect(try verdict(issuer, text, now: now) == .premature(issuedAt: Self.now))
        }
    }

    @Test("times at the ends of the clock's range do not overflow", arguments: [0, 1, UInt64.max - 1, UInt64.max])
    func extremes(_ time: UInt64) throws {
        let issuer = try issuer()
        let text = try issue(issuer, now: time)
        #expect(try verdict(issuer, text, now: time) == .fresh(issuedAt: time, pastHalfLife: false))
        #expect(
            try verdict(issuer, text, now: time, life: .max) == .fresh(issuedAt: time, pastHalfLife: false))
    }

    @Test("another store, epoch, purpose or secret makes a challenge foreign")
    func foreign() throws {
        let text = try issue(issuer())
        let others = try [
            issuer(scope(.enrolment)),
            issuer(scope(store: Array(1..<17))),
            issuer(scope(epoch: Array(17..<33))),
            issuer(scope(store: Array(0..<17), epoch: Array(17..<32))),  // the same bytes, divided elsewhere
            issuer(scope(store: Array(0..<15), epoch: Array(15..<32))),
            issuer(current: secret(filledWith: 0x5b)),
        ]
        for other in others {
            #expect(try verdict(other, text) == .foreign)
        }
    }

    @Test("after a rotation the old secret still verifies until it is dropped, and the new one signs")
    func rotation() throws {
        let old = try issuer(current: secret(1, filledWith: 1))
        let both = try issuer(current: secret(2, filledWith: 2), previous: secret(1, filledWith: 1))
        let new = try issuer(current: secret(2, filledWith: 2))
        let fresh = ChallengeVerdict.fresh(issuedAt: Self.now, pastHalfLife: false)

        let before = try issue(old)
        #expect(try verdict(both, before) == fresh)
        #expect(try verdict(new, before) == .foreign)

        let after = try issue(both)
        #expect(try verdict(new, after) == fresh)
        #expect(try verdict(old, after) == .foreign)
    }

    @Test("a secret under another generation number does not verify the challenge")
    func generations() throws {
        // A different generation 2 was issued under the number of generation 1.
        let text = try issue(issuer(current: secret(1, filledWith: 1)))
        let other = try issuer(current: secret(2, filledWith: 1), previous: secret(1, filledWith: 2))
        #expect(try verdict(other, text) == .foreign)
    }

    @Test("every flipped bit of the content makes a challenge foreign, or malformed")
    func flippedBits() throws {
        let issuer = try issuer()
        let text = try issue(issuer)
        for position in text.indices {
            let value = try #require(Self.alphabet.firstIndex(of: text[position]))
            for bit in 0..<6 {
                var other = text
                other[position] = Self.alphabet[value ^ 1 << bit]
                // These bits are the version and the four after the last byte.
                let isForm = position * 6 + 5 - bit < 8 || position == text.count - 1 && bit < 4
                #expect(try verdict(issuer, other) == (isForm ? .malformed : .foreign))
            }
        }
    }

    @Test("every flipped bit of the text is refused")
    func flippedText() throws {
        let issuer = try issuer()
        let text = try issue(issuer)
        for bit in 0..<(text.count * 8) {
            var other = text
            other[bit / 8] ^= 1 << UInt8(bit % 8)
            let verdict = try verdict(issuer, other)
            #expect(verdict == .foreign || verdict == .malformed)
        }
    }

    @Test("text of another length, padded, or of another alphabet is malformed")
    func malformed() throws {
        let issuer = try issuer()
        let text = try issue(issuer)
        for count in 0..<text.count {
            #expect(try verdict(issuer, Array(text[..<count])) == .malformed)
        }
        #expect(try verdict(issuer, text + Array("A".utf8)) == .malformed)
        #expect(try verdict(issuer, text + Array("==".utf8)) == .malformed)
        #expect(try verdict(issuer, [UInt8](repeating: 0x41, count: 100_000)) == .malformed)
        for character in "+/= \n.\u{0}".utf8 {
            for position in text.indices {
                var other = text
                other[position] = character
                #expect(try verdict(issuer, other) == .malformed)
            }
        }
    }

    @Test("a later version is malformed, whatever follows")
    func version() throws {
        let issuer = try issuer()
        var text = try issue(issuer)
        text[0] = UInt8(ascii: "_")
        #expect(try verdict(issuer, text) == .malformed)
    }

    @Test("weak secrets, empty identifiers and equal generations are refused")
    func refused() throws {
        #expect(ChallengeSecret(generation: 1, bytes: [UInt8](repeating: 1, count: 31)) == nil)
        #expect(scope(store: []) == nil)
        #expect(scope(epoch: []) == nil)
        #expect(scope(store: [UInt8](repeating: 0, count: 256)) == nil)
        #expect(throws: CryptographyError.self) {
            try issuer(current: secret(3, filledWith: 1), previous: secret(3, filledWith: 2))
        }
    }
}
