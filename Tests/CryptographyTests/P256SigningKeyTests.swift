import Cryptography
import Testing

@Suite("P-256 signing keys")
struct P256SigningKeyTests {
    private let context: LibraryContext

    init() throws { context = try LibraryContext() }

    @Test("one key signs repeatedly, and each signature verifies only its own digest")
    func signs() throws {
        let key = try P256SigningKey(PrivateKey.generateP256(context), context)
        let point = key.point
        let verification = try P256VerificationKey(point: point.span, context)
        for number in 0..<50 {
            let message = [UInt8(number)]
            let other = [UInt8(number + 1)]
            let digest = try context.sha256(of: message.span)
            let signature = try key.sign(digest: digest)
            #expect(signature.count <= 72)
            let isGood = verification.verify(digest: digest, signature: signature.span)
            let isGoodElsewhere = verification.verify(
                digest: try context.sha256(of: other.span), signature: signature.span)
            #expect(isGood && !isGoodElsewhere)
        }
    }

    @Test("a key of another curve is refused for signing")
    func otherCurves() throws {
        let key = try PrivateKey.generateP384(context)
        #expect(throws: CryptographyError.self) { try P256SigningKey(key, context) }
    }
}
