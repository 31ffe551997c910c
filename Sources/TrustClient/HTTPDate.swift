internal import Vocabulary

/// The date of HTTP messages, IMF-fixdate: `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110 section 5.6.7). The two obsolete
/// forms, which no gateway sends, are not read.
enum HTTPDate {
    /// - Returns: seconds since 1970; nil if the text is of another form, or no day of the calendar.
    static func seconds(_ text: String) -> Int64? {
        let bytes = Array(text.utf8)
        guard bytes.count == 29, weekdays.contains(String(text.prefix(3))), text.hasSuffix(" GMT"),
            bytes[3] == UInt8(ascii: ","), [4, 7, 11, 16].allSatisfy({ bytes[$0] == UInt8(ascii: " ") }),
            bytes[19] == UInt8(ascii: ":"), bytes[22] == UInt8(ascii: ":"),
            let month = months.firstIndex(of: String(decoding: bytes[8..<11], as: UTF8.self)),
            let day = number(bytes[5..<7]), let year = number(bytes[12..<16]), let hour = number(bytes[17..<19]),
            let minute = number(bytes[20..<22]), let second = number(bytes[23..<25]),
            (1...31).contains(day), hour < 24, minute < 60, second <= 60, year >= 1970
        else { return nil }
        let days = GregorianDays.count(to: year, Int64(month) + 1, day)
        return days * 86_400 + hour * 3_600 + minute * 60 + second
    }

    private static let weekdays: Set = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]

    private static func number(_ digits: ArraySlice<UInt8>) -> Int64? {
        var value: Int64 = 0
        for digit in digits {
            guard digit &- 0x30 < 10 else { return nil }
            value = value * 10 + Int64(digit - 0x30)
        }
        return value
    }
}
