/// Bytes from hexadecimal text, as test vectors are printed; white space is ignored.
///
/// Traps on anything else: a vector that is mistyped must not pass as a shorter one.
public func hex(_ text: String) -> [UInt8] {
    let digits = text.filter { !$0.isWhitespace }.map { character in
        guard let digit = character.hexDigitValue else { preconditionFailure("no hexadecimal digit: \(character)") }
        return UInt8(digit)
    }
    precondition(digits.count.isMultiple(of: 2), "half a byte in \(text)")
    return stride(from: 0, to: digits.count, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
}
