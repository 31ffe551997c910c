/// The two forms of an ECDSA signature on P-256.
public enum ECDSASignature {
    /// Width of r and of s, in bytes.
    private static let width = 32

    /// The ECDSA-Sig-Value in DER (RFC 3279 section 2.2.3) of r and s in a fixed width (RFC 7518 section 3.4).
    ///
    /// - Returns: nil unless there are 64 bytes. That r and s lie between 1 and the order of the curve is for whoever
    ///   verifies.
    public static func der(fixedWidth signature: Span<UInt8>) -> [UInt8]? {
        guard signature.count == 2 * width else { return nil }
        let content = integer(signature.extracting(first: width)) + integer(signature.extracting(last: width))
        return [0x30, UInt8(content.count)] + content
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
