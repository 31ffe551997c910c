/// The two forms of an ECDSA signature on P-256.
public enum ECDSASignature {
    /// Width of r and of s, in bytes.
    private static let width = 32

    /// The ECDSA-Sig-Value in DER (RFC 3279 section 2.2.3) of r and s in a fixed width (RFC 7518 section 3.4).
    ///
    /// - Returns: nil unless there are 64 bytes. The verifier checks that r and s lie between 1 and the order of the
    ///   curve.
    public static func der(fixedWidth signature: Span<UInt8>) -> [UInt8]? {
        guard signature.count == 2 * width else { return nil }
        let content = integer(signature.extracting(first: width)) + integer(signature.extracting(last: width))
        return [0x30, UInt8(content.count)] + content
    }

    /// r and s in a fixed width, 64 bytes (RFC 7518 section 3.4), of an ECDSA-Sig-Value in DER.
    ///
    /// - Returns: nil unless it is one, of integers that are no longer than the curve's order.
    public static func fixedWidth(der signature: Span<UInt8>) -> [UInt8]? {
        guard signature.count >= 2, signature[0] == 0x30, Int(signature[1]) == signature.count - 2 else { return nil }
        var position = 2
        var fixed: [UInt8] = []
        for _ in 0..<2 {
            guard position + 2 <= signature.count, signature[position] == 0x02 else { return nil }
            let length = Int(signature[position + 1])
            position += 2
            guard length > 0, length <= width + 1, position + length <= signature.count else { return nil }
            var octets = (position..<(position + length)).map { signature[$0] }
            position += length
            if octets.count == width + 1 {
                guard octets.removeFirst() == 0 else { return nil }
            }
            fixed += [UInt8](repeating: 0, count: width - octets.count) + octets
        }
        return position == signature.count ? fixed : nil
    }

    /// An INTEGER: no leading zero octets, but one where the sign bit would be set (X.690 section 8.3).
    private static func integer(_ magnitude: Span<UInt8>) -> [UInt8] {
        var start = 0
        while start < magnitude.count - 1, magnitude[start] == 0 { start += 1 }
        var octets = (start..<magnitude.count).map { magnitude[$0] }
        if octets[0] >= 0x80 { octets.insert(0, at: 0) }
        return [0x02, UInt8(octets.count)] + octets
    }
}
