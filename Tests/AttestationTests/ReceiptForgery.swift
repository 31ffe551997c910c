import Attestation
import COpenSSL
import Cryptography

/// A receipt made and signed by a test's own authority: genuine in every respect, but for what a test changes before it is
/// signed.
struct ReceiptForgery {
    static let time: Int64 = 1_790_000_000

    enum Signing {
        /// Over the payload; no signed attributes. As Apple signs today.
        case payload
        /// Over signed attributes, as RFC 5652 says.
        case attributes
        /// Over the payload, although signed attributes are there. As in iOS 14.0.
        case payloadDespiteAttributes
    }

    let authority: TestAuthority
    let attestedKey: OpaquePointer
    let signerKey: OpaquePointer

    /// Type and value; made by `init`, in Apple's order.
    var fields: [(UInt8, [UInt8])]
    /// In place of the fields.
    var payload: [UInt8]?
    var signing = Signing.payload
    var signerExtensions: [(String, [UInt8])] = [("1.2.840.113635.100.12.15", [0x05, 0x00])]
    var signerValidity = (Self.time - 1_000_000)...(Self.time + 1_000_000)
    var signerIsAuthority: Bool? = false
    var intermediate: Certificate
    var sendsIntermediate = true
    /// Signs in the signer's place.
    var otherKey: OpaquePointer?

    init(_ authority: TestAuthority) throws {
        self.authority = authority
        attestedKey = try TestAuthority.key("P-256", authority.library)
        signerKey = try TestAuthority.key("P-256", authority.library)
        intermediate = try authority.intermediate()
        let leaf = try authority.leaf(
            TestAuthority.Request(subject: "leaf", validity: TestAuthority.validity), for: attestedKey, by: intermediate
        )
        func time(_ seconds: Int64) -> [UInt8] { Array(InternetTime(seconds: seconds).description.utf8) }
        fields = [
            (2, Array(AttestationForgery.appID.utf8)), (3, TestAuthority.der(leaf)),
            (4, [UInt8](repeating: 7, count: 32)), (5, Array("token".utf8)), (6, Array("ATTEST".utf8)),
            (7, Array("production".utf8)), (12, time(Self.time)), (21, time(Self.time + 90 * 86_400)),
        ]
    }

    mutating func set(_ type: UInt8, _ value: String?) {
        fields.removeAll { $0.0 == type }
        if let value { fields.append((type, Array(value.utf8))) }
    }

    var writtenPayload: [UInt8] {
        let items = fields.map { type, value in
            DERWriting.sequence(DERWriting.integer(type), DERWriting.integer(1), DERWriting.octets(value))
        }
        return payload ?? DERWriting.item([0x31], items.flatMap { $0 })
    }

    func receipt() throws -> [UInt8] {
        let payload = writtenPayload
        let request = TestAuthority.Request(
            subject: "signer", validity: signerValidity, isAuthority: signerIsAuthority, extensions: signerExtensions)
        let signer = try authority.leaf(request, for: signerKey, by: intermediate)
        let digest = try authority.library.sha256(of: payload.span).bytes
        let attributes = Self.attributes(digest)
        // Signed as a SET, sent as [0] (RFC 5652 section 5.4).
        let set = DERWriting.item([0x31], attributes)
        let attributesDigest = try authority.library.sha256(of: set.span).bytes
        let signature = try SoftwareKey.sign(
            digest: signing == .attributes ? attributesDigest : digest, otherKey ?? signerKey, authority.library)
        let certificates =
            TestAuthority.der(signer) + (sendsIntermediate ? TestAuthority.der(intermediate) : [])
            + TestAuthority.der(authority.root)
        let sha256 = DERWriting.sequence(Self.sha256)
        let information = DERWriting.sequence(
            DERWriting.integer(1), Self.issuerAndSerial(signer), sha256,
            signing == .payload ? [] : DERWriting.item([0xa0], attributes), DERWriting.sequence(Self.ecdsaSHA256),
            DERWriting.octets(signature))
        // Indefinite lengths and a string in pieces, as Apple's.
        let half = payload.count / 2
        let pieces = DERWriting.octets(Array(payload[..<half])) + DERWriting.octets(Array(payload[half...]))
        let content = Self.indefinite(0x30, Self.data + Self.indefinite(0xa0, Self.indefinite(0x24, pieces)))
        let signed = Self.indefinite(
            0x30,
            DERWriting.integer(1) + DERWriting.set(sha256) + content + DERWriting.item([0xa0], certificates)
                + DERWriting.set(information))
        return Self.indefinite(0x30, Self.signedData + Self.indefinite(0xa0, signed))
    }

    // MARK: - Pieces of CMS

    /// 1.2.840.113549.1.7.1 and .2
    private static let data = hexadecimal("06092a864886f70d010701")
    private static let signedData = hexadecimal("06092a864886f70d010702")
    /// 2.16.840.1.101.3.4.2.1
    private static let sha256 = hexadecimal("0609608648016503040201")
    /// 1.2.840.10045.4.3.2
    private static let ecdsaSHA256 = hexadecimal("06082a8648ce3d040302")
    /// 1.2.840.113549.1.9.3 and .4
    private static let contentType = hexadecimal("06092a864886f70d010903")
    private static let messageDigest = hexadecimal("06092a864886f70d010904")

    private static func hexadecimal(_ text: String) -> [UInt8] {
        let digits = text.compactMap(\.hexDigitValue)
        return stride(from: 0, to: digits.count, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) }
    }

    private static func indefinite(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] { [tag, 0x80] + content + [0, 0] }

    private static func attributes(_ digest: [UInt8]) -> [UInt8] {
        DERWriting.sequence(contentType, DERWriting.set(data))
            + DERWriting.sequence(messageDigest, DERWriting.set(DERWriting.octets(digest)))
    }

    private static func issuerAndSerial(_ certificate: Certificate) -> [UInt8] {
        var name: UnsafeMutablePointer<UInt8>?
        let nameLength = i2d_X509_NAME(X509_get_issuer_name(certificate.pointer), &name)
        var serial: UnsafeMutablePointer<UInt8>?
        let serialLength = i2d_ASN1_INTEGER(X509_get_serialNumber(certificate.pointer), &serial)
        defer {
            CRYPTO_free(name, #file, #line)
            CRYPTO_free(serial, #file, #line)
        }
        return DERWriting.sequence(
            Array(UnsafeBufferPointer(start: name, count: Int(nameLength)))
                + Array(UnsafeBufferPointer(start: serial, count: Int(serialLength))))
    }
}
