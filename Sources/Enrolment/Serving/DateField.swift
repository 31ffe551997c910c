internal import Foundation

/// The value of the Date field (RFC 9110 section 6.6.1), made once a second: a phone whose clock is wrong learns the time by
/// it, and dates its next token right.
struct DateField {
    private let formatter = DateFormatter()
    private var second: Int64?
    private var text: [UInt8] = []

    init() {
        formatter.locale = Locale(identifier: "en_US_POSIX")
        formatter.timeZone = TimeZone(secondsFromGMT: 0)
        formatter.dateFormat = "EEE, dd MMM yyyy HH:mm:ss 'GMT'"
    }

    /// `Sat, 21 Nov 2026 06:45:00 GMT` (RFC 9110 section 5.6.7).
    ///
    /// - Parameter now: in seconds since 1970.
    mutating func value(at now: Int64) -> [UInt8] {
        if second != now {
            second = now
            text = Array(formatter.string(from: Date(timeIntervalSince1970: TimeInterval(now))).utf8)
        }
        return text
    }
}
