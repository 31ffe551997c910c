import EventLoop
import Testing

@testable import Administration

@Suite("Refused clients of the administration")
struct AdministrationRefusalsTests {
    private final class Log {
        var lines: [String] = []
    }

    private static func minute(_ minute: Int64) -> Instant { Instant(nanoseconds: minute * 60_000_000_000 + 5) }

    @Test("refused clients are counted by reason and logged with their address")
    func counted() {
        let log = Log()
        let refusals = AdministrationRefusals { log.lines.append($0) }
        refusals.add(.token, "192.0.2.7", at: "198.51.100.1:9464", Self.minute(1))
        refusals.add(.host, "user 1000", at: "the socket", Self.minute(1))
        refusals.add(.token, "192.0.2.8", at: "198.51.100.1:9464", Self.minute(2))
        #expect(refusals.count(of: .token) == 2 && refusals.count(of: .host) == 1 && refusals.count(of: .origin) == 0)
        #expect(
            log.lines == [
                "refused 192.0.2.7 at 198.51.100.1:9464: the token is missing or wrong",
                "refused user 1000 at the socket: the Host field is not a name of the listener",
                "refused 192.0.2.8 at 198.51.100.1:9464: the token is missing or wrong",
            ])
    }

    @Test("refused clients cannot flood the log: omitted lines are counted, and the next line reports them")
    func flood() {
        let log = Log()
        let refusals = AdministrationRefusals(linesPerMinute: 3) { log.lines.append($0) }
        for _ in 0..<1_000 { refusals.add(.token, "192.0.2.7", at: "door", Self.minute(1)) }
        #expect(log.lines.count == 3)
        for _ in 0..<2 { refusals.add(.origin, "192.0.2.7", at: "door", Self.minute(2)) }
        #expect(log.lines.count == 5)
        #expect(log.lines[3].hasSuffix("so it comes from a web page; 997 others since the previous line"))
        #expect(log.lines[4].hasSuffix("so it comes from a web page"))
        #expect(refusals.count(of: .token) == 1_000 && refusals.count(of: .origin) == 2)
    }
}
