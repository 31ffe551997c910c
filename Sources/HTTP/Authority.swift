/// The authority of a request: `host` or `host:port` (RFC 9110 section 7.2), without user information.
enum Authority {
    /// - Returns: the length of the host part, without the port.
    static func hostLength(_ authority: Span<UInt8>) throws(MessageFault) -> Int {
        guard authority.count > 0, authority.count <= 255 + 6 else { throw .hostMalformed }
        let length = authority[0] == UInt8(ascii: "[") ? addressLength(authority) : nameLength(authority)
        guard length > 0 else { throw .hostMalformed }
        guard length < authority.count else { return length }
        guard authority[length] == ByteClass.colon, isPort(authority.extracting((length + 1)...)) else {
            throw .hostMalformed
        }
        return length
    }

    /// Labels of letters, digits and hyphens, parted by single dots; IPv4 addresses are of this form too. No trailing
    /// dot: it would be a second spelling of the same host.
    private static func nameLength(_ authority: Span<UInt8>) -> Int {
        var position = 0
        var labelStart = 0
        while position < authority.count, authority[position] != ByteClass.colon {
            let byte = authority[position]
            if byte == UInt8(ascii: ".") {
                guard position > labelStart else { return 0 }
                labelStart = position + 1
            } else if !ByteClass.isAlphanumeric(byte), byte != UInt8(ascii: "-") {
                return 0
            }
            position += 1
        }
        return position > labelStart ? position : 0
    }

    /// An IPv6 address in brackets. Its inner form decides nothing here: routes compare it as text.
    private static func addressLength(_ authority: Span<UInt8>) -> Int {
        var position = 1
        while position < authority.count {
            let byte = authority[position]
            if byte == UInt8(ascii: "]") { return position > 2 ? position + 1 : 0 }
            guard ByteClass.hexadecimal(byte) != nil || byte == ByteClass.colon || byte == UInt8(ascii: ".") else {
                return 0
            }
            position += 1
        }
        return 0
    }

    private static func isPort(_ digits: Span<UInt8>) -> Bool {
        guard (1...5).contains(digits.count), digits[0] != UInt8(ascii: "0") else { return false }
        var port = 0
        for index in digits.indices {
            guard ByteClass.isDigit(digits[index]) else { return false }
            port = port * 10 + Int(digits[index] - 0x30)
        }
        return port <= 65535
    }
}
