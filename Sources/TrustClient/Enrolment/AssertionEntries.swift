/// The two entries of an App Attest assertion that a key binding carries apart.
///
/// What the phone's own system made is read here, and the service verifies it: so this reads what RFC 8949 calls definite
/// lengths, whatever the entries' order, and refuses the rest.
struct AssertionEntries: Equatable {
    let signature: [UInt8]
    let authenticatorData: [UInt8]

    /// Nil comes of bytes that are no map of these entries.
    init?(_ assertion: [UInt8]) {
        var reader = Reader(rest: assertion[...])
        guard let head = reader.head(), head.major == 5, head.count <= 8 else { return nil }
        var entries: [String: [UInt8]] = [:]
        for _ in 0..<head.count {
            guard let name = reader.string(3) else { return nil }
            let key = String(decoding: name, as: UTF8.self)
            switch key {
            case "signature", "authenticatorData":
                guard let value = reader.string(2), entries.updateValue(value, forKey: key) == nil else { return nil }
            // iOS 18.5 to 26 put a hash of the code beside them, for apps that ask for it.
            default: guard reader.skip(depth: 0) else { return nil }
            }
        }
        guard reader.rest.isEmpty, let signature = entries["signature"], let data = entries["authenticatorData"] else {
            return nil
        }
        self.signature = signature
        authenticatorData = data
    }

    private struct Reader {
        var rest: ArraySlice<UInt8>

        /// Major type, and what its argument says.
        mutating func head() -> (major: UInt8, count: Int)? {
            guard let first = rest.popFirst() else { return nil }
            let major = first >> 5
            switch first & 0x1f {
            case let short where short < 24: return (major, Int(short))
            case 24: return number(1).map { (major, $0) }
            case 25: return number(2).map { (major, $0) }
            case 26: return number(4).map { (major, $0) }
            default: return nil
            }
        }

        private mutating func number(_ length: Int) -> Int? {
            guard rest.count >= length else { return nil }
            defer { rest = rest.dropFirst(length) }
            return rest.prefix(length).reduce(0) { $0 << 8 | Int($1) }
        }

        mutating func string(_ major: UInt8) -> [UInt8]? {
            guard let head = head(), head.major == major, head.count <= rest.count else { return nil }
            defer { rest = rest.dropFirst(head.count) }
            return Array(rest.prefix(head.count))
        }

        /// - Returns: whether there was a value.
        mutating func skip(depth: Int) -> Bool {
            guard depth < 4, let head = head() else { return false }
            switch head.major {
            case 0, 1, 7: return true
            case 2, 3:
                guard head.count <= rest.count else { return false }
                rest = rest.dropFirst(head.count)
                return true
            case 4, 5:
                // Each element takes a byte at least, so a count that is a lie ends soon.
                for _ in 0..<(head.major == 5 ? 2 * head.count : head.count) where !skip(depth: depth + 1) {
                    return false
                }
                return true
            default: return false
            }
        }
    }
}
