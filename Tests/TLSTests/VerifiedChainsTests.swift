import Cryptography
import Testing

@testable import TLS

@Suite("Verified chains")
struct VerifiedChainsTests {
    @Test("a leaf finds its own verified chain, and no other leaf does")
    func finding() {
        let chains = VerifiedChains(limit: 8)
        let known = identity()
        chains.insert(leaf(1), known)
        #expect(chains.find(leaf(1)) === known)
        #expect(chains.find(leaf(2)) == nil)
        // One bit of the digest at any place.
        for place in 0..<32 {
            var bytes = [UInt8](repeating: 0, count: 32)
            bytes[place] = 0x80
            let other = LeafDigest(digest(bytes))
            #expect(chains.find(other) == nil)
            #expect(other != LeafDigest(zero))
        }
    }

    @Test("a later verification replaces the earlier one")
    func replacing() {
        let chains = VerifiedChains(limit: 2)
        let renewed = identity()
        chains.insert(leaf(1), identity())
        chains.insert(leaf(1), renewed)
        #expect(chains.count == 1)
        #expect(chains.find(leaf(1)) === renewed)
    }

    @Test("a flood of different leaves stays within the limit, and recurring leaves stay")
    func flood() {
        let chains = VerifiedChains(limit: 100)
        let regulars = (0..<20).map { leaf($0) }
        for regular in regulars { chains.insert(regular, identity()) }
        for number in 1_000..<11_000 {
            chains.insert(leaf(number), identity())
            #expect(chains.count <= 100)
            // Each returns before the flood has gone round.
            #expect(chains.find(regulars[number % 20]) != nil)
        }
        #expect(chains.count == 100)
        #expect(chains.find(leaf(10_999)) != nil)
        #expect(chains.find(leaf(1_000)) == nil)
    }

    @Test("unused leaves are evicted one by one")
    func eviction() {
        let chains = VerifiedChains(limit: 3)
        for number in 0..<3 { chains.insert(leaf(number), identity()) }
        _ = chains.find(leaf(0))
        chains.insert(leaf(3), identity())
        #expect(chains.find(leaf(1)) == nil)
        for number in [0, 2, 3] { #expect(chains.find(leaf(number)) != nil) }
        // All have been used: the hand removes their second chances, and starts again.
        chains.insert(leaf(4), identity())
        #expect(chains.count == 3)
        #expect(chains.find(leaf(4)) != nil)
    }

    private var zero: Digest256 { digest([UInt8](repeating: 0, count: 32)) }

    private func leaf(_ number: Int) -> LeafDigest {
        LeafDigest(digest((0..<32).map { UInt8(truncatingIfNeeded: number >> (8 * min($0, 7))) }))
    }

    private func digest(_ bytes: [UInt8]) -> Digest256 {
        guard let digest = Digest256(bytes.span) else { preconditionFailure("32 bytes are a digest") }
        return digest
    }

    private func identity() -> ClientIdentity {
        ClientIdentity(kind: .issued, keyID: nil, thumbprint: [], notBefore: 0, notAfter: .max, chain: [])
    }
}
