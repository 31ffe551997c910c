/// The one kind of COSE key that App Attest has (RFC 9053 sections 2.1 and 7.1.1): an EC2 key on P-256 for ES256, with
/// two coordinates of 32 bytes, and nothing else.
public struct COSEKey: Equatable, Sendable {
    /// Where the coordinates lie.
    public let x: Range<Int>
    public let y: Range<Int>

    /// Reads one map.
    ///
    /// - Returns: nil if it is a key of another kind. The reader then stands behind it all the same.
    static func read(_ reader: inout CBORReader) throws(CBORFault) -> COSEKey? {
        var isKnown = true
        var x: Range<Int>?
        var y: Range<Int>?
        var constants = 0
        var map = try reader.beginMap()
        while let key = try reader.nextKey(&map) {
            let kind = try reader.peek()
            switch (key, kind) {
            // kty: EC2; alg: ES256; crv: P-256.
            case (.integer(1), .unsigned), (.integer(3), .negative), (.integer(-1), .unsigned):
                isKnown = try reader.readInteger() == value(of: key) && isKnown
                constants += 1
            case (.integer(-2), .bytes): x = try reader.readBytes()
            case (.integer(-3), .bytes): y = try reader.readBytes()
            default:
                try reader.skip()
                isKnown = false
            }
        }
        guard isKnown, constants == 3, let x, let y, x.count == 32, y.count == 32 else { return nil }
        return COSEKey(x: x, y: y)
    }

    private static func value(of key: CBORKey) -> Int64 {
        switch key {
        case .integer(1): 2
        case .integer(3): -7
        default: 1
        }
    }
}
