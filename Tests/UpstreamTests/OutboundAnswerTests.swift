import Testing

@testable import Upstream

@Suite("The fields of a service's response")
struct OutboundAnswerTests {
    @Test("max-age is read where the response may be stored")
    func maxAge() {
        let cases: [(String, Int64?)] = [
            ("max-age=3600", 3_600), ("public, max-age=60", 60), ("Max-Age=60", 60), ("max-age=0", 0),
            ("max-age=\"60\"", 60), ("private,max-age=5,must-revalidate", 5),
            ("no-cache, max-age=60", nil), ("max-age=60, no-store", nil), ("public", nil), ("s-maxage=60", nil),
            ("max-age=", nil), ("max-age=-1", nil), ("max-age=1.5", nil), ("max-age=9999999999", nil), ("", nil),
        ]
        for (value, seconds) in cases {
            #expect(OutboundAnswer.maxAge(inCacheControl: value) == seconds, "\(value)")
        }
    }

    @Test("seconds are a decimal number of at most nine digits")
    func seconds() {
        let cases: [(String, Int64?)] = [
            ("0", 0), ("120", 120), ("999999999", 999_999_999), ("1000000000", nil), ("", nil), ("+1", nil),
            ("1s", nil),
            ("Fri, 27 Nov 2026 10:00:00 GMT", nil),
        ]
        for (value, seconds) in cases { #expect(OutboundAnswer.seconds(value) == seconds, "\(value)") }
    }

    @Test("a conditional request names what the service has said")
    func conditions() {
        let cases: [(ContentValidators, [String])] = [
            (ContentValidators(), []), (ContentValidators(entityTag: "\"a\""), ["If-None-Match: \"a\""]),
            (
                ContentValidators(entityTag: "W/\"a\"", lastModified: "Fri, 27 Nov 2026 10:00:00 GMT"),
                ["If-None-Match: W/\"a\"", "If-Modified-Since: Fri, 27 Nov 2026 10:00:00 GMT"]
            ),
        ]
        for (validators, lines) in cases { #expect(validators.conditions.map { "\($0): \($1)" } == lines) }
    }
}
