import Cryptography
import TestVectors
import Testing

@Suite("ECDSA signatures of fixed width")
struct ECDSASignatureTests {
    private let library: LibraryContext

    init() throws { library = try LibraryContext() }

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
