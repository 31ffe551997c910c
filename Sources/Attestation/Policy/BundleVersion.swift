internal import Cryptography

/// A bundle version (`CFBundleVersion`): integers with full stops between them, compared one by one; what is missing at the
/// end counts as 0, as Apple has it.
///
/// Holds no array: versions are compared for every request.
public struct BundleVersion: Comparable, Sendable {
    /// What the version does not say is 0.
    private var parts: InlineArray<8, UInt64>

    /// Apple writes three at most; more are seen in development.
    private static let partLimit = 8
    private static let digitLimit = 18

    /// - Parameter text: UTF-8. Nil unless it is one to eight runs of digits with single full stops between them.
    public init?(_ text: Span<UInt8>) {
        parts = InlineArray(repeating: 0)
        var part = 0
        var value: UInt64 = 0
        var digits = 0
        for index in 0...text.count {
            if index < text.count, text[index] >= UInt8(ascii: "0"), text[index] <= UInt8(ascii: "9") {
                digits += 1
                guard digits <= Self.digitLimit else { return nil }
                value = value * 10 + UInt64(text[index] - UInt8(ascii: "0"))
                continue
            }
            guard digits > 0, index == text.count || text[index] == UInt8(ascii: ".") else { return nil }
            guard part < Self.partLimit else { return nil }
            parts[part] = value
            (part, value, digits) = (part + 1, 0, 0)
        }
    }

    public init?(_ text: String) {
        let bytes = Array(text.utf8)
        self.init(bytes.span)
    }

    public static func == (left: BundleVersion, right: BundleVersion) -> Bool {
        left.parts.indices.allSatisfy { left.parts[$0] == right.parts[$0] }
    }

    public static func < (left: BundleVersion, right: BundleVersion) -> Bool {
        for index in left.parts.indices where left.parts[index] != right.parts[index] {
            return left.parts[index] < right.parts[index]
        }
        return false
    }
}
