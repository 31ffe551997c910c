/// The field Attest-Proof-Counter: the counter of a proof whose signature contains none, as on Android.
public enum ProofCounter {
    /// Parses the field.
    ///
    /// The counter has one spelling: a decimal number without sign and leading zeros.
    ///
    /// - Parameter field: The value, with several lines combined by `CombinedField`. Two lines are no number.
    /// - Returns: 1 to 2^32-1.
    /// - Throws: `malformed` of `proofCounter`.
    public static func value(of field: Span<UInt8>) throws(ProofFault) -> UInt32 {
        guard (1...digitLimit).contains(field.count), field[0] != zero else { throw fault }
        var value: UInt64 = 0
        for index in field.indices {
            let digit = field[index] &- zero
            guard digit < 10 else { throw fault }
            value = value * 10 + UInt64(digit)
        }
        guard let counter = UInt32(exactly: value) else { throw fault }
        return counter
    }

    /// Returns the value of the field.
    public static func fieldValue(_ counter: UInt32) -> [UInt8] { Array("\(counter)".utf8) }

    /// 4294967295 has ten digits.
    private static let digitLimit = 10
    private static let zero = UInt8(ascii: "0")
    private static let fault = ProofFault.malformed(.proofCounter, .counterValue)
}
