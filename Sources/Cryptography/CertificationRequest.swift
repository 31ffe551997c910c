internal import Encoding
internal import Vocabulary

/// A parsed request for a certificate (PKCS #10, RFC 2986) of a key on P-256. Nothing in it was verified.
public struct CertificationRequest: Equatable, Sendable {
    /// Length limit in bytes. Requests of phones have about 300.
    public static let lengthLimit = 4096

    /// The key: the uncompressed point, 65 bytes. It need not be on the curve.
    public let point: [UInt8]
    /// The challenge passwords (RFC 2985 section 5.4.1), of the subject and of the attributes. gematik's apps have it in
    /// the subject.
    public let challengePasswords: [[UInt8]]
    /// The signed bytes.
    private let signed: [UInt8]
    /// r and s, 32 bytes each.
    private let signature: [UInt8]

    private static let challengePassword: [UInt8] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x07]
    /// ecdsa-with-SHA256.
    private static let algorithm: [UInt8] = [0x30, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02]
    /// id-ecPublicKey on prime256v1.
    private static let keyAlgorithm: [UInt8] = [
        0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d,
        0x03, 0x01, 0x07,
    ]
    private static let objectIdentifier = DERTag(leading: 0x00, number: 6)
    private static let bitString = DERTag(leading: 0x00, number: 3)
    /// UTF8String, PrintableString, T61String and IA5String.
    private static let texts: [UInt32] = [12, 19, 20, 22]

    /// Parses a request.
    ///
    /// - Returns: nil for another form, another kind of key, or another signature algorithm than ECDSA with SHA-256.
    public init?(der: [UInt8]) {
        guard der.count <= Self.lengthLimit, let request = try? Self.read(der) else { return nil }
        self = request
    }

    private init(point: [UInt8], challengePasswords: [[UInt8]], signed: [UInt8], signature: [UInt8]) {
        self.point = point
        self.challengePasswords = challengePasswords
        self.signed = signed
        self.signature = signature
    }

    private static func read(_ der: [UInt8]) throws(DERFault) -> CertificationRequest {
        let bytes = der.span
        var outer = DERReader(bytes)
        var request = DERReader(bytes, in: try outer.read(.sequence))
        try outer.finish()
        let start = request.position
        let content = try request.read(.sequence)
        let signed = Array(der[start..<request.position])
        guard try encoding(of: .sequence, &request, der) == algorithm else { throw .unexpectedValue }
        let signature = try bits(&request, der)
        try request.finish()
        guard let signature = ECDSASignature.fixedWidth(der: signature.span) else { throw .unexpectedValue }

        var items = DERReader(bytes, in: content)
        guard try items.readSmallInteger() == 0 else { throw .unexpectedValue }
        var passwords = try passwords(ofNames: items.read(.sequence), bytes, der)
        var key = DERReader(bytes, in: try items.read(.sequence))
        guard try encoding(of: .sequence, &key, der) == keyAlgorithm else { throw .unexpectedValue }
        let point = try bits(&key, der)
        try key.finish()
        guard point.count == 65, point[0] == 0x04 else { throw .unexpectedValue }
        // RFC 2986 has attributes always, but some clients leave out an empty set.
        if !items.isAtEnd {
            passwords += try Self.passwords(ofAttributes: items.read(.explicit(0)), bytes, der)
        }
        try items.finish()
        return CertificationRequest(point: point, challengePasswords: passwords, signed: signed, signature: signature)
    }

    private static func encoding(
        of tag: DERTag, _ reader: inout DERReader, _ der: [UInt8]
    ) throws(DERFault) -> [UInt8] {
        let start = reader.position
        _ = try reader.read(tag)
        return Array(der[start..<reader.position])
    }

    /// Reads a BIT STRING of whole bytes.
    private static func bits(_ reader: inout DERReader, _ der: [UInt8]) throws(DERFault) -> [UInt8] {
        let content = try reader.read(bitString)
        guard let first = content.first, der[first] == 0 else { throw .unexpectedValue }
        return Array(der[content.dropFirst()])
    }

    /// Returns the values of a name (RFC 5280 section 4.1.2.4).
    private static func passwords(
        ofNames range: Range<Int>, _ bytes: Span<UInt8>, _ der: [UInt8]
    ) throws(DERFault) -> [[UInt8]] {
        var sets = DERReader(bytes, in: range)
        var found: [[UInt8]] = []
        while !sets.isAtEnd {
            var set = DERReader(bytes, in: try sets.read(.set))
            while !set.isAtEnd {
                var pair = DERReader(bytes, in: try set.read(.sequence))
                let identifier = try pair.read(objectIdentifier)
                let (tag, value) = try pair.next()
                try pair.finish()
                guard der[identifier].elementsEqual(challengePassword) else { continue }
                found.append(try text(tag, value, der))
            }
        }
        return found
    }

    /// Returns the values of attributes (RFC 2986 section 4.1).
    private static func passwords(
        ofAttributes range: Range<Int>, _ bytes: Span<UInt8>, _ der: [UInt8]
    ) throws(DERFault) -> [[UInt8]] {
        var attributes = DERReader(bytes, in: range)
        var found: [[UInt8]] = []
        while !attributes.isAtEnd {
            var attribute = DERReader(bytes, in: try attributes.read(.sequence))
            let identifier = try attribute.read(objectIdentifier)
            var values = DERReader(bytes, in: try attribute.read(.set))
            try attribute.finish()
            guard der[identifier].elementsEqual(challengePassword) else { continue }
            while !values.isAtEnd {
                let (tag, value) = try values.next()
                found.append(try text(tag, value, der))
            }
        }
        return found
    }

    private static func text(_ tag: DERTag, _ value: Range<Int>, _ der: [UInt8]) throws(DERFault) -> [UInt8] {
        guard tag.leading == 0, texts.contains(tag.number) else { throw .unexpectedTag }
        return Array(der[value])
    }

    /// Returns whether the key has signed the request, which proves that its sender has it.
    ///
    /// gematik's app for iOS signs the SHA-256 of the signed bytes in place of them. That is as good a proof.
    public func isSigned(_ library: LibraryContext) throws(CryptographyError) -> Bool {
        guard let key = try? P256VerificationKey(point: point.span, library) else { return false }
        let digest = try library.sha256(of: signed.span)
        if key.verify(digest: digest, fixedWidthSignature: signature.span) { return true }
        return key.verify(digest: try library.sha256(of: digest.span), fixedWidthSignature: signature.span)
    }
}
