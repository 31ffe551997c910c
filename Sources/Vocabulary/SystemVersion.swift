/// A version of an operating system, such as `17.4.1`. One to three numbers are compared one by one, and missing ones
/// are 0. Thus `17.10` is above `17.4`, and `17` equals `17.0.0`.
///
/// It is trivial and packed into 32 bits, because it is kept for every device in memory and compared for every request.
public struct SystemVersion: Hashable, Comparable, Sendable {
    /// 10 bits of the first number and 11 bits of each other.
    private let packed: UInt32

    private static let widths: [UInt32] = [10, 11, 11]
    /// Limit of digits, enough for the largest number of 11 bits.
    private static let digitLimit = 4

    /// Parses a version.
    ///
    /// - Parameter text: One to three numbers with single full stops between them. The first is at most 1023, the
    ///   others at most 2047.
    /// - Returns: nil for other texts.
    public init?(_ text: String) {
        let parts = text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count <= Self.widths.count else { return nil }
        var packed: UInt32 = 0
        for (index, width) in Self.widths.enumerated() {
            var number: UInt32 = 0
            if index < parts.count {
                guard (1...Self.digitLimit).contains(parts[index].count) else { return nil }
                for digit in parts[index] {
                    guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(digit) else { return nil }
                    number = number * 10 + UInt32(digit - UInt8(ascii: "0"))
                }
            }
            guard number < 1 << width else { return nil }
            packed = packed << width | number
        }
        self.packed = packed
    }

    public static func < (left: SystemVersion, right: SystemVersion) -> Bool { left.packed < right.packed }
}

extension SystemVersion: CustomStringConvertible {
    /// Two numbers, and the third unless it is 0. Equal versions have equal texts.
    public var description: String {
        let (major, minor, patch) = (packed >> 22, packed >> 11 & 0x7ff, packed & 0x7ff)
        return patch == 0 ? "\(major).\(minor)" : "\(major).\(minor).\(patch)"
    }
}

/// The extensions about the app that a hardware key has shown or an assertion shows. Systems before iOS 27 and macOS 27
/// send none. A system that sends one always does.
public struct ShownExtensions: OptionSet, Hashable, Sendable {
    /// The stored value.
    public let rawValue: UInt8

    public init(rawValue: UInt8) {
        self.rawValue = rawValue
    }

    /// `apple_validation_category_01`.
    public static let validationCategory = ShownExtensions(rawValue: 1)
    /// `apple_bundle_version_01`.
    public static let bundleVersion = ShownExtensions(rawValue: 2)
}
