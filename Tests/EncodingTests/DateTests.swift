import Chance
import Foundation
import Testing

@testable import Encoding

@Suite("The calendar")
struct CalendarTimeTests {
    @Test("known times have their known dates")
    func known() {
        #expect(CalendarTime(seconds: 0).httpDate == "Thu, 01 Jan 1970 00:00:00 GMT")
        // RFC 9110 section 5.6.7.
        #expect(CalendarTime(seconds: 784_111_777).httpDate == "Sun, 06 Nov 1994 08:49:37 GMT")
        #expect(CalendarTime(seconds: 951_782_400).timestamp == "2000-02-29T00:00:00")
        #expect(CalendarTime(seconds: 4_107_542_400).timestamp == "2100-03-01T00:00:00")
    }

    @Test("dates agree with Foundation's calendar in the next century")
    func agrees() throws {
        let seed = RunSeed.tell()
        var random = SeededGenerator(seed: seed)
        var calendar = Calendar(identifier: .gregorian)
        calendar.timeZone = try #require(TimeZone(secondsFromGMT: 0))
        for _ in 0..<1_000 {
            let seconds = Int64(random.next() % 6_000_000_000)
            let parts = calendar.dateComponents(
                [.year, .month, .day, .hour, .minute, .second, .weekday],
                from: Date(timeIntervalSince1970: TimeInterval(seconds)))
            let time = CalendarTime(seconds: seconds)
            #expect(time.year == parts.year && time.month == parts.month && time.day == parts.day, "\(seconds)")
            #expect(time.hour == parts.hour && time.minute == parts.minute && time.second == parts.second)
            #expect(time.weekday + 1 == parts.weekday)
        }
    }
}

@Suite("Calendar days")
struct CalendarDayTests {
    @Test(
        "days are counted from 1970-01-01, across leap years and centuries",
        arguments: [
            ([1970, 1, 1], 0), ([1970, 3, 1], 59), ([1972, 2, 29], 789), ([1972, 3, 1], 790), ([2000, 2, 29], 11_016),
            ([2000, 3, 1], 11_017), ([2026, 11, 21], 20_778), ([2100, 2, 28], 47_540), ([2100, 3, 1], 47_541),
            ([9999, 12, 31], 2_932_896),
        ] as [([Int64], Int64)])
    func days(date: [Int64], count: Int64) {
        #expect(CalendarTime.days(to: date[0], date[1], date[2]) == count)
    }
}

@Suite("Internet time (RFC 3339)")
struct InternetTimeTests {
    @Test(
        "RFC 3339 is read to the millisecond, in UTC or with an offset",
        arguments: [
            ("1970-01-01T00:00:00Z", 0), ("2020-11-27T22:41:40.46Z", 1_606_516_900_460),
            ("2020-11-27T22:41:40.460Z", 1_606_516_900_460), ("2020-11-27T22:41:40.4605678Z", 1_606_516_900_460),
            ("2024-02-29T00:00:00Z", 1_709_164_800_000), ("2000-02-29T23:59:60Z", 951_868_800_000),
            ("2026-04-21T20:13:12+02:00", 1_776_795_192_000), ("2026-04-21T12:43:12-05:30", 1_776_795_192_000),
        ])
    func reads(_ text: String, _ milliseconds: Int) throws {
        #expect(try #require(InternetTime(text)).milliseconds == Int64(milliseconds))
    }

    @Test(
        "every other form is refused",
        arguments: [
            "", "2026", "2026-04-21", "2026-04-21T18:13:12", "2026-04-21 18:13:12Z", "2026-04-21T18:13Z",
            "2026-13-21T18:13:12Z", "2026-00-21T18:13:12Z", "2026-02-29T18:13:12Z", "2100-02-29T00:00:00Z",
            "2026-04-31T00:00:00Z", "2026-04-21T24:00:00Z", "2026-04-21T18:60:12Z", "2026-04-21T18:13:61Z",
            "2026-04-21T18:13:12.Z", "2026-04-21T18:13:12.0000000000Z", "2026-04-21T18:13:12ZZ", "1969-12-31T23:59:59Z",
            "2026-04-21T18:13:12+2:00", "2026-04-21T18:13:12+24:00", "+026-04-21T18:13:12Z",
        ])
    func refuses(_ text: String) {
        #expect(InternetTime(text) == nil)
    }

    @Test("a time is written in UTC and can be read back")
    func written() throws {
        for seconds in stride(from: Int64(0), to: 4_102_444_800, by: 7_777_777) {
            let time = InternetTime(seconds: seconds)
            #expect(try #require(InternetTime(time.description)) == time)
        }
    }
}

@Suite("The Date field")
struct DateFieldTests {
    @Test("its value follows the clock")
    func follows() {
        var field = DateField()
        for _ in 0..<2 { #expect(field.value(at: 784_111_777) == "Sun, 06 Nov 1994 08:49:37 GMT") }
        #expect(field.value(at: 784_111_778) == "Sun, 06 Nov 1994 08:49:38 GMT")
        #expect(field.value(at: 784_111_776) == "Sun, 06 Nov 1994 08:49:36 GMT")
    }

    @Test("what is written can be read")
    func written() {
        for seconds in stride(from: Int64(0), to: 4_102_444_800, by: 7_777_777) {
            #expect(HTTPDate.seconds(CalendarTime(seconds: seconds).httpDate) == seconds)
        }
    }
}
