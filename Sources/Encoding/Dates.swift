/// A date and time of day in UTC, by the Gregorian calendar.
package struct CalendarTime: Equatable, Sendable {
    package let year: Int
    package let month: Int
    package let day: Int
    package let hour: Int
    package let minute: Int
    package let second: Int
    /// 0 is Sunday.
    package let weekday: Int

    /// - Parameter seconds: Since 1970-01-01T00:00:00Z, negative for earlier times.
    package init(seconds: Int64) {
        let days = Int(seconds / 86_400) - (seconds % 86_400 < 0 ? 1 : 0)
        let rest = Int((seconds % 86_400 + 86_400) % 86_400)
        hour = rest / 3_600
        minute = rest % 3_600 / 60
        second = rest % 60
        weekday = (days % 7 + 11) % 7  // 1970-01-01 was a Thursday

        // Counted from 1 March 0000, so that the leap day is the last of its year. 400 years have 146,097 days.
        let shifted = days + 719_468
        let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
        let dayOfEra = shifted - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shiftedMonth = (5 * dayOfYear + 2) / 153
        day = dayOfYear - (153 * shiftedMonth + 2) / 5 + 1
        month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
        year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
    }

    /// `2026-11-21T06:45:00` (RFC 3339, without fraction and zone).
    package var timestamp: String {
        "\(year)-\(Self.pad(month))-\(Self.pad(day))T\(time)"
    }

    /// `Sat, 21 Nov 2026 06:45:00 GMT` (RFC 9110 section 5.6.7).
    package var httpDate: String {
        "\(Self.weekdays[weekday]), \(Self.pad(day)) \(Self.months[month - 1]) \(year) \(time) GMT"
    }

    private var time: String { "\(Self.pad(hour)):\(Self.pad(minute)):\(Self.pad(second))" }
    private static func pad(_ number: Int) -> String { number < 10 ? "0\(number)" : "\(number)" }

    fileprivate static let weekdays = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
    fileprivate static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]

    /// Returns the number of days from 1970-01-01 to a date.
    ///
    /// - Parameters:
    ///   - year: 0 or later.
    ///   - month: 1 to 12.
    ///   - day: From 1. Days after the month's last count into the next month.
    static func days(to year: Int64, _ month: Int64, _ day: Int64) -> Int64 {
        // Years begin on 1 March, as above.
        let year = month > 2 ? year : year - 1
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        return 365 * year + year / 4 - year / 100 + year / 400 + dayOfYear - 719_468
    }
}

/// A time in the form of RFC 3339, as in receipts, documents and command lines: `2026-04-21T18:13:12.153Z`.
public struct InternetTime: Equatable, Sendable {
    /// Milliseconds since 1970-01-01T00:00:00Z. Smaller fractions are truncated.
    public let milliseconds: Int64

    public init(seconds: Int64) {
        milliseconds = seconds * 1000
    }

    public var seconds: Int64 {
        // Times before 1970 are rounded down, too.
        (milliseconds - (milliseconds % 1000 + 1000) % 1000) / 1000
    }

    /// Parses a time. A leap second becomes the following second.
    ///
    /// - Parameter text: RFC 3339 section 5.6 with capital `T` and `Z`, or an offset instead of `Z`. Years are 1970 to
    ///   9999.
    public init?(_ text: Span<UInt8>) {
        var reader = Reader(text: text)
        guard let year = reader.number(4), reader.skip("-"), let month = reader.number(2), reader.skip("-"),
            let day = reader.number(2), reader.skip("T"), let hour = reader.number(2), reader.skip(":"),
            let minute = reader.number(2), reader.skip(":"), let second = reader.number(2),
            year >= 1970, (1...12).contains(month), (1...Self.days(in: month, of: year)).contains(day), hour < 24,
            minute < 60, second <= 60, let fraction = reader.fraction(), let offset = reader.offset(), reader.isAtEnd
        else { return nil }
        let days = CalendarTime.days(to: Int64(year), Int64(month), Int64(day))
        let seconds = days * 86_400 + Int64((hour * 60 + minute - offset) * 60 + second)
        milliseconds = seconds * 1000 + Int64(fraction)
    }

    public init?(_ text: String) {
        let bytes = Array(text.utf8)
        self.init(bytes.span)
    }

    private static func days(in month: Int, of year: Int) -> Int {
        switch month {
        case 4, 6, 9, 11: 30
        case 2: year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28
        default: 31
        }
    }

    private struct Reader: ~Escapable {
        let text: Span<UInt8>
        var position = 0

        @_lifetime(copy text)
        init(text: Span<UInt8>) { self.text = text }

        var isAtEnd: Bool { position == text.count }

        mutating func skip(_ character: Unicode.Scalar) -> Bool {
            guard position < text.count, text[position] == UInt8(ascii: character) else { return false }
            position += 1
            return true
        }

        mutating func digit() -> Int? {
            guard position < text.count, (0x30...0x39).contains(text[position]) else { return nil }
            position += 1
            return Int(text[position - 1]) - 0x30
        }

        mutating func number(_ digits: Int) -> Int? {
            var value = 0
            for _ in 0..<digits {
                guard let digit = digit() else { return nil }
                value = value * 10 + digit
            }
            return value
        }

        /// Parses a fraction of up to nine digits and returns milliseconds.
        mutating func fraction() -> Int? {
            guard skip(".") else { return 0 }
            var milliseconds = 0
            var count = 0
            while count < 9, let digit = digit() {
                if count < 3 { milliseconds = milliseconds * 10 + digit }
                count += 1
            }
            guard count > 0 else { return nil }
            for _ in count..<max(count, 3) { milliseconds *= 10 }
            return milliseconds
        }

        /// Parses an offset and returns the minutes to subtract.
        mutating func offset() -> Int? {
            if skip("Z") { return 0 }
            let sign = skip("+") ? 1 : skip("-") ? -1 : 0
            guard sign != 0, let hours = number(2), skip(":"), let minutes = number(2), hours < 24, minutes < 60 else {
                return nil
            }
            return sign * (hours * 60 + minutes)
        }
    }
}

extension InternetTime: CustomStringConvertible {
    /// The time in UTC, without fractions of a second.
    public var description: String { Self.text(of: seconds) }

    /// Returns a text such as `2026-11-21T06:45:00Z`.
    ///
    /// - Parameter seconds: Since 1970-01-01T00:00:00Z.
    package static func text(of seconds: Int64) -> String { CalendarTime(seconds: seconds).timestamp + "Z" }

    /// Returns a text such as `2026-11-21T06:45:00.123Z`.
    ///
    /// - Parameter microseconds: Since 1970-01-01T00:00:00Z, not negative.
    package static func text(ofMicroseconds microseconds: Int64) -> String {
        let rest = String(microseconds / 1_000 % 1_000)
        return CalendarTime(seconds: microseconds / 1_000_000).timestamp + "."
            + String(repeating: "0", count: 3 - rest.count) + rest + "Z"
    }
}

/// The date of HTTP messages, IMF-fixdate: `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110 section 5.6.7). The two obsolete
/// forms, which no gateway sends, are refused.
package enum HTTPDate {
    /// Parses a date.
    ///
    /// - Returns: seconds since 1970, or nil for another form or an invalid date.
    package static func seconds(_ text: String) -> Int64? {
        let bytes = Array(text.utf8)
        guard bytes.count == 29, CalendarTime.weekdays.contains(String(text.prefix(3))), text.hasSuffix(" GMT"),
            bytes[3] == UInt8(ascii: ","), [4, 7, 11, 16].allSatisfy({ bytes[$0] == UInt8(ascii: " ") }),
            bytes[19] == UInt8(ascii: ":"), bytes[22] == UInt8(ascii: ":"),
            let month = CalendarTime.months.firstIndex(of: String(decoding: bytes[8..<11], as: UTF8.self)),
            let day = number(bytes[5..<7]), let year = number(bytes[12..<16]), let hour = number(bytes[17..<19]),
            let minute = number(bytes[20..<22]), let second = number(bytes[23..<25]),
            (1...31).contains(day), hour < 24, minute < 60, second <= 60, year >= 1970
        else { return nil }
        let days = CalendarTime.days(to: year, Int64(month) + 1, day)
        return days * 86_400 + hour * 3_600 + minute * 60 + second
    }

    private static func number(_ digits: ArraySlice<UInt8>) -> Int64? {
        var value: Int64 = 0
        for digit in digits {
            guard digit &- 0x30 < 10 else { return nil }
            value = value * 10 + Int64(digit - 0x30)
        }
        return value
    }
}

/// The value of the Date field (RFC 9110 section 6.6.1), computed once a second.
package struct DateField {
    @usableFromInline var second: Int64?
    @usableFromInline var text = ""

    package init() {}

    /// Returns the value, such as `Sat, 21 Nov 2026 06:45:00 GMT`.
    ///
    /// - Parameter now: The time in seconds since 1970.
    @inlinable
    package mutating func value(at now: Int64) -> String {
        if second != now { update(now) }
        return text
    }

    @usableFromInline
    mutating func update(_ now: Int64) {
        second = now
        text = CalendarTime(seconds: now).httpDate
    }
}
