/// A version of an operating system, such as `17.4.1`: one to three numbers, compared one by one. Missing numbers are 0,
/// so `17.10` is above `17.4`, and `17` equals `17.0.0`.
///
/// Trivial and packed into 32 bits: it is kept with every device in memory and compared for every request.
public struct SystemVersion: Hashable, Comparable, Sendable {
    /// 10 bits of the first number, 11 of each other.
    private let packed: UInt32

    private static let widths: [UInt32] = [10, 11, 11]
    /// Enough for the largest number of 11 bits.
    private static let digitLimit = 4

    /// - Parameter text: nil unless it is one to three numbers with single full stops between them, the first up to 1023, the
    ///   others up to 2047.
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
    /// Two numbers, and the third unless it is 0: one spelling for equal versions.
    public var description: String {
        let (major, minor, patch) = (packed >> 22, packed >> 11 & 0x7ff, packed & 0x7ff)
        return patch == 0 ? "\(major).\(minor)" : "\(major).\(minor).\(patch)"
    }
}

/// Which of the extensions about the app a hardware key has shown, or an assertion shows. Systems before iOS 27 and macOS 27
/// add none of them; one that does, adds them for good.
public struct ShownExtensions: OptionSet, Hashable, Sendable {
    /// As it is stored.
    public let rawValue: UInt8

    public init(rawValue: UInt8) {
        self.rawValue = rawValue
    }

    /// `apple_validation_category_01`.
    public static let validationCategory = ShownExtensions(rawValue: 1)
    /// `apple_bundle_version_01`.
    public static let bundleVersion = ShownExtensions(rawValue: 2)
}
