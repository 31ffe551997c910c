import Chance
import Foundation
import Testing

@testable import Telemetry

@Suite("The calendar")
struct CivilTimeTests {
    @Test("known times have their known dates")
    func known() {
        #expect(CivilTime(seconds: 0).httpDate == "Thu, 01 Jan 1970 00:00:00 GMT")
        // RFC 9110 section 5.6.7.
        #expect(CivilTime(seconds: 784_111_777).httpDate == "Sun, 06 Nov 1994 08:49:37 GMT")
        #expect(CivilTime(seconds: 951_782_400).timestamp == "2000-02-29T00:00:00")
        #expect(CivilTime(seconds: 4_107_542_400).timestamp == "2100-03-01T00:00:00")
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
            let time = CivilTime(seconds: seconds)
            #expect(time.year == parts.year && time.month == parts.month && time.day == parts.day, "\(seconds)")
            #expect(time.hour == parts.hour && time.minute == parts.minute && time.second == parts.second)
            #expect(time.weekday + 1 == parts.weekday)
        }
    }
}
