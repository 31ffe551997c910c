internal import Cryptography

extension Span where Element == UInt8 {
    /// Whether the bytes are the UTF-8 of `text`.
    ///
    /// - Parameter text: a literal; those are neither allocated nor counted, so asking costs a comparison and no more.
    func spells(_ text: String) -> Bool {
        let text = text.utf8
        return ConstantTime.areEqual(self, text.span)
    }
}
