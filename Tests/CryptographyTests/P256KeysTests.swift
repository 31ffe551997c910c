import Cryptography
import Testing
import TestVectors

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

@Suite("P-256 verification keys")
struct P256VerificationKeyTests {
    private let context: LibraryContext

    init() throws { context = try LibraryContext() }

    // RFC 6979 appendix A.2.5.
    private static let x = "60fed4ba255a9d31c961eb74c6356d68c049b8923b61fa6ce669622e60f29fb6"
    private static let y = "7903fe1008b8bc99a41ae9e95628bc64f2f1b20c2d7e9f5177a3c294d4462299"
    private static let r = "efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716"
    private static let s = "f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8"
    /// The group's order minus `s`: the other signature of the same message.
    private static let otherS = "0834e36ad29a83bf2bc9385e491d6099c8fdf9d1ed67aa7ea5f51f93782857a9"
    private static let order = "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551"

    private func key() throws -> P256VerificationKey {
        let point = hex("04" + Self.x + Self.y)
        return try P256VerificationKey(point: point.span, context)
    }

    private func digest(_ message: String = "sample") throws -> Digest256 {
        let bytes = Array(message.utf8)
        return try context.sha256(of: bytes.span)
    }

    private func verdict(_ signature: String) throws -> Bool {
        try verdict(key(), digest(), hex(signature))
    }

    private func verdict(_ key: P256VerificationKey, _ digest: Digest256, _ signature: [UInt8]) -> Bool {
        key.verify(digest: digest, signature: signature.span)
    }

    @Test("RFC 6979's signatures verify repeatedly with one key")
    func known() throws {
        let key = try key()
        let sample = hex("3046 022100\(Self.r) 022100\(Self.s)")
        let test = hex(
            """
            3045 022100f1abb023518351cd71d881567b1ea663ed3efcf6c5132b354f28d3b0b7d38367
            0220019f4113742a2b14bd25926b49c649155f267e60d3814b4c0cc84250e46f0083
            """)
        for _ in 0..<3 {
            #expect(try verdict(key, digest("sample"), sample))
            #expect(try verdict(key, digest("test"), test))
            #expect(try !verdict(key, digest("test"), sample))
        }
    }

    @Test("both high and low s are accepted: Apple sends both")
    func malleability() throws {
        #expect(try verdict("3046 022100\(Self.r) 022100\(Self.s)"))
        #expect(try verdict("3045 022100\(Self.r) 0220\(Self.otherS)"))
    }

    @Test(
        "a signature has one encoding",
        arguments: [
            "308146 022100\(r) 022100\(s)",  // long form of a short length
            "3047 022100\(r) 022100\(s) 00",  // a byte too many, inside
            "3046 022100\(r) 022100\(s) 00",  // and outside
            "3080 022100\(r) 022100\(s) 0000",  // indefinite length
            "3047 02220000\(r) 022100\(s)",  // superfluous leading zero
            "3045 0220\(r) 022100\(s)",  // r negative
            "3047 02812100\(r) 022100\(s)",  // long form inside
            "3145 022100\(r) 022100\(s)",  // not a SEQUENCE
            "3023 022100\(r)",  // no s
            "\(r)\(s)",  // the raw form of JWS
        ])
    func encodings(_ signature: String) throws {
        #expect(try !verdict(signature))
    }

    @Test(
        "values outside 1 ..< order are refused",
        arguments: [
            "3006 020100 020100", "3026 020100 022100\(s)", "3026 022100\(r) 020100",
            "3046 022100\(order) 022100\(s)", "3046 022100\(r) 022100\(order)", "3006 020101 020101",
        ])
    func values(_ signature: String) throws {
        #expect(try !verdict(signature))
    }

    @Test("one flipped bit anywhere in signature or digest is refused")
    func bits() throws {
        let key = try key()
        let signature = hex("3046 022100\(Self.r) 022100\(Self.s)")
        let digest = try digest()
        for bit in 0..<(signature.count * 8) {
            var other = signature
            other[bit / 8] ^= 1 << UInt8(bit % 8)
            #expect(!verdict(key, digest, other))
        }
        for bit in 0..<256 {
            var bytes = digest.bytes
            bytes[bit / 8] ^= 1 << UInt8(bit % 8)
            let other = Digest256(bytes.span)
            #expect(try !verdict(key, #require(other), signature))
        }
    }

    @Test("a truncated or oversized signature is refused")
    func lengths() throws {
        let key = try key()
        let signature = hex("3046 022100\(Self.r) 022100\(Self.s)")
        for count in 0..<signature.count {
            #expect(try !verdict(key, digest(), Array(signature[..<count])))
        }
        let long = [UInt8](repeating: 0x30, count: 100_000)
        #expect(try !verdict(key, digest(), long))
    }

    @Test(
        "anything but an uncompressed point of the curve is refused as a key",
        arguments: [
            "", "00", "04", "02\(x)", "03\(x)",  // infinity, compressed forms
            "06\(x)\(y)", "07\(x)\(y)", "05\(x)\(y)",  // hybrid forms
            "04\(x)\(y)00", "04\(x)",  // other lengths
            "04\(y)\(x)",  // not on the curve
            "04" + String(repeating: "0", count: 128),
            // Coordinates are below the field's prime: x + p would be a second spelling where it fits.
            "04ffffffff00000001000000000000000000000000ffffffffffffffffffffffff\(y)",
            "04" + String(repeating: "f", count: 128),
        ])
    func notAKey(_ point: String) {
        let point = hex(point)
        #expect(throws: CryptographyError.self) { try P256VerificationKey(point: point.span, context) }
    }

    @Test("a point with one flipped bit is refused: it is not on the curve")
    func flippedPoint() throws {
        let point = hex("04" + Self.x + Self.y)
        for bit in 0..<(point.count * 8) {
            var other = point
            other[bit / 8] ^= 1 << UInt8(bit % 8)
            #expect(throws: CryptographyError.self) { try P256VerificationKey(point: other.span, context) }
        }
    }

    @Test("a generated key's point is accepted as a key")
    func generated() throws {
        let point = try #require(PrivateKey.generateP256(context).publicKey.uncompressedPoint)
        _ = try P256VerificationKey(point: point.span, context)
    }
}

@Suite("ECDSA signatures of fixed width")
struct ECDSASignatureTests {
    private let library: LibraryContext

    init() throws { library = try LibraryContext() }

    @Test("the signature of RFC 9421 appendix B.2.4 verifies, and no other base does")
    func messageSignature() throws {
        let base = """
            "@status": 200
            "content-type": application/json
            "content-digest": sha-512=:mEWXIS7MaLRuGgxOBdODa3xqM1XdEvxoYhvlCFJ41QJgJc4GTsPp29l5oGX69wWdXymyU0rjJuahq4l5aGgf\
            LQ==:
            "content-length": 23
            "@signature-params": ("@status" "content-type" "content-digest" "content-length");created=1618884473;\
            keyid="test-key-ecc-p256"
            """
        // test-key-ecc-p256 of appendix B.1.3, as its point.
        let point = hex(
            "04a885586552c2acf6471878cfd7b0935b4ffe0fd2dfc341248ea17bc41e058af0"
                + "31ce2737d2d30ce0617e851e83c61ef5679d151867657649035d90a74cd9e85d")
        let signature = hex(
            "c0d9925008706f92f1b4eb4ea4d6ba5b9c63d3aee6e6116b8f45d0e1fbe96822"
                + "f1d0d2a87203eab8b8326a19f30e70c0532e5e09d95850490b223fb7da889ab3")
        let key = try P256VerificationKey(point: point.span, library)
        for (text, expected) in [(base, true), (base + " ", false), (base.replacing("200", with: "201"), false)] {
            let message = Array(text.utf8)
            let digest = try library.sha256(of: message.span)
            let verdict = key.verify(digest: digest, fixedWidthSignature: signature.span)
            #expect(verdict == expected)
        }
    }

    // RFC 6979 appendix A.2.5, message "sample" with SHA-256.
    private static let point =
        "0460fed4ba255a9d31c961eb74c6356d68c049b8923b61fa6ce669622e60f29fb67903fe1008b8bc99a41ae9e95628bc64f2f1b20c2d7e9f5177a3c294d4462299"
    private static let signature =
        "efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8"
    private static let order = "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551"

    private func verdict(_ signature: [UInt8]) throws -> Bool {
        let point = hex(Self.point)
        let message = Array("sample".utf8)
        let key = try P256VerificationKey(point: point.span, library)
        let digest = try library.sha256(of: message.span)
        return key.verify(digest: digest, fixedWidthSignature: signature.span)
    }

    private func der(_ signature: String) -> [UInt8]? {
        let bytes = hex(signature)
        return ECDSASignature.der(fixedWidth: bytes.span)
    }

    @Test("RFC 6979's signature verifies; shorter, longer and altered ones are refused")
    func known() throws {
        let signature = hex(Self.signature)
        #expect(try verdict(signature))
        for length in 0..<64 { #expect(try !verdict(Array(signature[..<length]))) }
        #expect(try !verdict(signature + [0]))
        #expect(try !verdict([0] + signature))
        for bit in 0..<512 {
            var other = signature
            other[bit / 8] ^= 1 << UInt8(bit % 8)
            #expect(try !verdict(other))
        }
    }

    @Test("r or s of zero, or not below the order, is refused (CVE-2022-21449)")
    func outsideRange() throws {
        let zero = String(repeating: "0", count: 64)
        let half = String(Self.signature.prefix(64))
        for (r, s) in [(zero, zero), (half, zero), (zero, half), (Self.order, half), (half, Self.order)] {
            #expect(try !verdict(hex(r + s)))
        }
        let most = String(repeating: "f", count: 64)
        #expect(try !verdict(hex(most + most)))
    }

    @Test("integers are written positive and in as few bytes as possible")
    func integers() {
        let zeros = String(repeating: "0", count: 60)
        #expect(der(zeros + "0001" + zeros + "007f") == hex("3006020101" + "02017f"))
        #expect(der(zeros + "0080" + zeros + "0100") == hex("300802020080" + "02020100"))
        let most = String(repeating: "f", count: 64)
        #expect(der(most + most) == hex("3046" + "022100" + most + "022100" + most))
        #expect(der(zeros + "0000" + zeros + "0000") == hex("3006020100020100"))
    }
}
