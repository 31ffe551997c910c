internal import Cryptography

/// How far the reading of one map has come.
///
/// Remembers where its keys lie, so that every map is free of duplicates, whatever its reader knows of it: two readers
/// that pick different ones of two equal keys are how forged content passes a check.
public struct CBORMap: Sendable {
    /// The most entries a map may have: as many as `keys` has room for. Apple's largest map, the COSE key, has five.
    public static let capacity = 32

    /// How many entries have not been read.
    public private(set) var remaining: Int
    private var count = 0
    /// Where the encoded keys lie that were read so far: the first `count` of `capacity`.
    private var keys = InlineArray<32, Range<Int>>(repeating: 0..<0)

    init(entries: Int) {
        remaining = entries
    }

    /// Notes the key whose encoding lies in `range`.
    ///
    /// Equal keys have equal encodings, because only the shortest encoding is admitted.
    mutating func note(_ range: Range<Int>, in bytes: Span<UInt8>) throws(CBORFault) {
        for index in 0..<count {
            guard !ConstantTime.areEqual(bytes.extracting(keys[index]), bytes.extracting(range)) else {
                throw .duplicateKey
            }
        }
        keys[count] = range
        count += 1
        remaining -= 1
    }
}

/// A map's key.
public enum CBORKey: Equatable, Sendable {
    /// Where the text lies, without its head.
    case text(Range<Int>)
    case integer(Int64)
}
