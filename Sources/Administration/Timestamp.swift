internal import Foundation

/// Times as RFC 3339 text, in UTC.
public enum Timestamp {
    /// `2026-11-21T06:45:00Z`. - Parameter seconds: since 1970-01-01T00:00:00Z.
    static func text(of seconds: Int64) -> String {
        Date(timeIntervalSince1970: TimeInterval(seconds)).formatted(.iso8601)
    }

    /// `2026-11-21T06:45:00.123Z`. - Parameter microseconds: since 1970-01-01T00:00:00Z.
    public static func milliseconds(of microseconds: Int64) -> String {
        let rest = String(microseconds / 1_000 % 1_000)
        return text(of: microseconds / 1_000_000).dropLast() + "." + String(repeating: "0", count: 3 - rest.count)
            + rest + "Z"
    }
}
