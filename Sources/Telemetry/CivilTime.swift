/// A moment in UTC, for log lines and Date fields. Without time zones or locales there is little to a calendar.
package struct CivilTime: Equatable {
    package let year: Int
    package let month: Int
    package let day: Int
    package let hour: Int
    package let minute: Int
    package let second: Int
    /// 0 is Sunday.
    package let weekday: Int

    /// - Parameter seconds: since 1970-01-01T00:00:00Z, not negative.
    package init(seconds: Int64) {
        let days = Int(seconds / 86_400)
        let rest = Int(seconds % 86_400)
        hour = rest / 3_600
        minute = rest % 3_600 / 60
        second = rest % 60
        weekday = (days + 4) % 7  // 1970-01-01 was a Thursday

        // Counted from 1 March 0000, so that the leap day is the last of its year; 400 years have 146,097 days.
        let shifted = days + 719_468
        let era = shifted / 146_097
        let dayOfEra = shifted % 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shiftedMonth = (5 * dayOfYear + 2) / 153
        day = dayOfYear - (153 * shiftedMonth + 2) / 5 + 1
        month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
        year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
    }

    /// `2026-11-21T06:45:00` (RFC 3339, without fraction and zone).
    package var timestamp: String {
        "\(year)-\(Self.pad(month))-\(Self.pad(day))T\(Self.pad(hour)):\(Self.pad(minute)):\(Self.pad(second))"
    }

    /// `Sat, 21 Nov 2026 06:45:00 GMT` (RFC 9110 section 5.6.7).
    package var httpDate: String {
        "\(Self.weekdays[weekday]), \(Self.pad(day)) \(Self.months[month - 1]) \(year) "
            + "\(Self.pad(hour)):\(Self.pad(minute)):\(Self.pad(second)) GMT"
    }

    private static func pad(_ number: Int) -> String { number < 10 ? "0\(number)" : "\(number)" }
    private static let weekdays = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
    private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
}

/// The current time for Date fields, made once a second.
package struct ClockText {
    private var second: Int64 = -1
    package private(set) var httpDate = ""

    package init() {}

    /// - Parameter seconds: since 1970.
    package mutating func update(to seconds: Int64) {
        guard seconds != second else { return }
        second = seconds
        httpDate = CivilTime(seconds: seconds).httpDate
    }
}
