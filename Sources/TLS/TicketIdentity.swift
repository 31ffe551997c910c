internal import Cryptography
internal import Vocabulary

/// The identity in an encrypted session ticket. Gateways of different versions may share tickets, so the first byte is the
/// version of this form; a ticket of another version leads to a full handshake. Numbers are in big-endian order:
///
///     version(1) kind(1) hasKeyID(1) keyID(0 or 32) thumbprint(32) notBefore(8) notAfter(8)
///     certificates(1) { issuer(64) length(1) serial }
///     name leafField chainField        each: length(2), 65535 for none, and bytes
extension ClientIdentity {
    private static let version: UInt8 = 1
    /// Longer ones get no ticket: a ClientHello with it must fit into the buffers of what is between.
    private static let longest = 8_192
    private static let absent = Int(UInt16.max)

    /// The encoding. Nil if it is too long for a ticket.
    var ticketContent: [UInt8]? {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(256)
        bytes += [Self.version, kind == .issued ? 0 : 1, keyID == nil ? 0 : 1]
        if let keyID { bytes += keyID.bytes }
        guard thumbprint.count == 32, chain.count <= 255 else { return nil }
        bytes += thumbprint
        for time in [notBefore, notAfter] { withUnsafeBytes(of: time.bigEndian) { bytes += $0 } }
        bytes.append(UInt8(chain.count))
        for certificate in chain {
            let serial = certificate.serialOctets
            guard serial.count <= 255 else { return nil }
            bytes += certificate.issuer.octets
            bytes.append(UInt8(serial.count))
            bytes += serial
        }
        for part in [name.map { Array($0.utf8) }, fields?.leaf, fields?.chain] {
            let length = part?.count ?? Self.absent
            guard length < Self.longest || part == nil else { return nil }
            bytes += [UInt8(length >> 8), UInt8(length & 0xff)]
            if let part { bytes += part }
        }
        return bytes.count <= Self.longest ? bytes : nil
    }

    /// Creates the identity of an encoding, which OpenSSL has authenticated.
    ///
    /// - Parameter encoder: where the chains of other identities are.
    /// - Returns: nil if it is of another version.
    convenience init?(ticketContent content: UnsafeBufferPointer<UInt8>, sharing encoder: CertificateEncoder) {
        var reader = Reader(rest: Array(content)[...])
        guard reader.byte() == Self.version, let kind = reader.byte(), kind <= 1, let hasKeyID = reader.byte(),
            hasKeyID <= 1
        else { return nil }
        var keyID: KeyID?
        if hasKeyID == 1 {
            guard let digest = reader.take(32) else { return nil }
            keyID = KeyID(digest: digest.span)
        }
        guard let thumbprint = reader.take(32), let notBefore = reader.time(), let notAfter = reader.time(),
            let count = reader.byte()
        else { return nil }
        var chain: [IssuedCertificate] = []
        for _ in 0..<count {
            guard let issuer = reader.take(64).flatMap({ AuthorityIdentity(octets: Array($0)) }),
                let length = reader.byte(), let serial = reader.take(Int(length))
            else { return nil }
            chain.append(IssuedCertificate(issuer: issuer, serialOctets: Array(serial)))
        }
        guard let name = reader.part(), let leaf = reader.part(), let issuers = reader.part(), reader.rest.isEmpty
        else { return nil }
        self.init(
            kind: kind == 0 ? .issued : .selfSigned, keyID: keyID, thumbprint: Array(thumbprint), notBefore: notBefore,
            notAfter: notAfter, chain: chain, name: name.map { String(decoding: $0, as: UTF8.self) },
            fields: leaf.map { CertificateFields(leaf: $0, chain: encoder.shared(issuers ?? [])) })
    }

    private struct Reader {
        var rest: ArraySlice<UInt8>

        mutating func take(_ count: Int) -> ArraySlice<UInt8>? {
            guard count <= rest.count else { return nil }
            defer { rest = rest.dropFirst(count) }
            return rest.prefix(count)
        }

        mutating func byte() -> UInt8? { take(1)?.first }

        mutating func time() -> Int64? { take(8).map { $0.reduce(0) { $0 << 8 | Int64($1) } } }

        /// Returns a part, which may be none, or nil if the content is too short.
        mutating func part() -> [UInt8]?? {
            guard let length = take(2).map({ $0.reduce(0) { $0 << 8 | Int($1) } }) else { return nil }
            if length == ClientIdentity.absent { return .some(nil) }
            return take(length).map { Array($0) }
        }
    }
}
