internal import Cryptography
internal import Encoding

/// The certificate of an attested key, with Apple's extensions.
struct AttestedLeaf {
    let certificate: Certificate
    /// The uncompressed point of the key, 65 bytes.
    let point: [UInt8]
    let keyID: Digest256

    init(_ certificate: Certificate, _ library: LibraryContext) throws(AttestationFault) {
        guard let key = certificate.publicKey, key.isP256, let point = key.uncompressedPoint, point.count == 65 else {
            throw .leafKey
        }
        self.certificate = certificate
        self.point = point
        do throws(CryptographyError) { keyID = try library.sha256(of: point.span) } catch {
            throw .checkFailed(.certificates, error)
        }
    }

    /// Returns the 32 bytes of the nonce, which exactly one extension must contain.
    func nonce() throws(AttestationFault) -> [UInt8] {
        let values = certificate.extensionValues(LeafExtensions.nonce)
        guard let value = values.first, values.count == 1 else { throw .nonceExtensionCount(values.count) }
        do throws(DERFault) {
            return Array(value[try LeafExtensions.nonce(in: value.span)])
        } catch {
            throw .nonceExtensionForm(error)
        }
    }

    /// Returns the app id: [1204] of the undocumented extension about the use of the key.
    static func appID(in certificate: Certificate) -> String? {
        let number: UInt32 = 1204
        guard let value = certificate.extensionValues(LeafExtensions.keyUse).first else { return nil }
        return try? LeafExtensions.texts(in: value.span, [number])[number]
    }
}

/// The content of Apple's extensions in a leaf certificate.
private enum LeafExtensions {
    /// 1.2.840.113635.100.8.2: the nonce.
    static let nonce = "1.2.840.113635.100.8.2"
    /// 1.2.840.113635.100.8.5: the permitted use of the key and its app. Apple does not document it.
    static let keyUse = "1.2.840.113635.100.8.5"
    /// 1.2.840.113635.100.8.7: the operating system. Apple does not document it.
    static let system = "1.2.840.113635.100.8.7"

    /// Returns the position of the nonce's 32 bytes in SEQUENCE { [1] EXPLICIT OCTET STRING }, without other content.
    static func nonce(in value: Span<UInt8>) throws(DERFault) -> Range<Int> {
        var outer = DERReader(value)
        var sequence = DERReader(value, in: try outer.read(.sequence))
        try outer.finish()
        var tagged = DERReader(value, in: try sequence.read(.explicit(1)))
        try sequence.finish()
        let nonce = try tagged.read(.octetString)
        try tagged.finish()
        guard nonce.count == 32 else { throw .unexpectedValue }
        return nonce
    }

    /// Returns the texts in a SEQUENCE OF [number] EXPLICIT value. Only values that are OCTET STRINGs of UTF-8 text
    /// count.
    ///
    /// - Throws: if the bytes are not exactly one SEQUENCE, or a requested number occurs twice.
    static func texts(in value: Span<UInt8>, _ wanted: [UInt32]) throws(DERFault) -> [UInt32: String] {
        var outer = DERReader(value)
        var sequence = DERReader(value, in: try outer.read(.sequence))
        try outer.finish()
        var texts: [UInt32: String] = [:]
        while !sequence.isAtEnd {
            let (tag, content) = try sequence.next()
            guard tag.leading == 0xa0, wanted.contains(tag.number) else { continue }
            var tagged = DERReader(value, in: content)
            let text = value.extracting(try tagged.read(.octetString))
            try tagged.finish()
            guard texts[tag.number] == nil, text.count <= 256, let utf8 = try? UTF8Span(validating: text) else {
                throw .unexpectedValue
            }
            texts[tag.number] = String(copying: utf8)
        }
        return texts
    }
}

/// The system that made the key, according to the leaf certificate.
public struct AttestedSystem: Equatable, Sendable {
    public var platform: AttestedPlatform
    /// The version, such as `27.0`.
    public var version: String?
    /// The build, such as `24A325b`.
    public var build: String?

    private static let versionNumber: UInt32 = 1400
    private static let buildNumber: UInt32 = 1403
    private static let platformNumber: UInt32 = 1026

    /// Parses the system extension.
    ///
    /// - Throws: if the leaf has several such extensions or a malformed one. A policy would treat the platform as
    ///   absent.
    init(_ leaf: Certificate) throws(DERFault) {
        let values = leaf.extensionValues(LeafExtensions.system)
        guard values.count <= 1 else { throw .unexpectedValue }
        guard let value = values.first else {
            platform = .unstated
            return
        }
        let texts = try LeafExtensions.texts(
            in: value.span, [Self.versionNumber, Self.buildNumber, Self.platformNumber])
        version = texts[Self.versionNumber]
        build = texts[Self.buildNumber]
        guard let name = texts[Self.platformNumber] else {
            platform = .unstated
            return
        }
        guard let platform = AttestedPlatform(name) else { throw .unexpectedValue }
        self.platform = platform
    }
}
