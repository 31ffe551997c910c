extension Span where Element == UInt8 {
    /// The first place from `start` on where a control of ASCII stands (below 0x20, or 0x7f); `count` if there is none.
    ///
    /// Eight octets at a time: messages are mostly text, and each is gone over for what must not be in it.
    public func firstControl(from start: Int) -> Int {
        precondition(start >= 0 && start <= count, "scanned from outside")
        return withUnsafeBufferPointer { bytes in
            var position = start
            let raw = UnsafeRawBufferPointer(bytes)
            while position + 8 <= bytes.count {
                let word = UInt64(littleEndian: raw.loadUnaligned(fromByteOffset: position, as: UInt64.self))
                // The high bit of each octet that is below 0x20, and of each that is 0x7f. A borrow can set one too many, but only
                // above one that is meant.
                let delete = word ^ 0x7f7f_7f7f_7f7f_7f7f
                let marks =
                    ((word &- 0x2020_2020_2020_2020) & ~word | (delete &- 0x0101_0101_0101_0101) & ~delete)
                    & 0x8080_8080_8080_8080
                if marks != 0 { return position + marks.trailingZeroBitCount / 8 }
                position += 8
            }
            while position < bytes.count, bytes[position] >= 0x20, bytes[position] != 0x7f { position += 1 }
            return position
        }
    }
}
