import Attestation
import Testing

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
