import Attestation
import Chance
import EventLoop
import Testing

@testable import Enrolment
@testable import Upstream

@Suite("The status list that is taken")
struct StatusListAnswerTests {
    private static func text(_ serials: [String]) -> [UInt8] {
        let entries = serials.map { "\"\($0)\":{\"status\":\"REVOKED\"}" }.joined(separator: ",")
        return Array("{\"entries\":{\(entries)}}".utf8)
    }

    private static func list(_ serials: [String]) -> AttestationStatusList {
        AttestationStatusList(serials: Set(serials))
    }

    private static func answer(
        _ status: UInt16, _ content: [UInt8] = [], maxAge: Int64? = nil, retryAfter: Int64? = nil
    ) -> Result<OutboundAnswer, OutboundFailure> {
        var answer = OutboundAnswer()
        answer.status = status
        answer.content = content
        answer.maxAge = maxAge
        answer.retryAfter = retryAfter
        return .success(answer)
    }

    @Test("statuses and failures have one meaning each")
    func statuses() {
        let kept = Self.list(["1a", "2b"])
        let text = Self.text(["1a", "2b", "3c"])
        let cases: [(Result<OutboundAnswer, OutboundFailure>, AttestationStatusList?, StatusListAnswer)] = [
            (
                Self.answer(200, text, maxAge: 60), kept,
                .list(Self.list(["1a", "2b", "3c"]), text: text, ContentValidators(), maxAge: 60)
            ),
            (Self.answer(304, maxAge: 60), kept, .unchanged(maxAge: 60)),
            // The request had no conditions.
            (Self.answer(304), nil, .failed("unexpected_status: 304", retryAfter: nil)),
            (Self.answer(302), kept, .failed("unexpected_status: 302", retryAfter: nil)),
            (Self.answer(404), kept, .failed("unexpected_status: 404", retryAfter: nil)),
            (Self.answer(429, retryAfter: 7), kept, .failed("throttled: status 429", retryAfter: 7)),
            (Self.answer(503, retryAfter: 7), kept, .failed("server_error: status 503", retryAfter: 7)),
            (.failure(.timeout), kept, .failed("timeout", retryAfter: nil)),
            (.failure(.contentTooLarge(status: 404)), kept, .failed("too_large", retryAfter: nil)),
            (.failure(.contentTooLarge(status: 200)), kept, .refused("it is longer than 4194304 bytes")),
        ]
        for (result, kept, expected) in cases { #expect(StatusListAnswer(result, kept: kept) == expected) }
    }

    @Test("a list that cannot be right is not taken")
    func refused() {
        let cases: [(text: [UInt8], kept: [String]?, reason: String?)] = [
            (Self.text(["1a"]), nil, nil), (Self.text([]), nil, "it has no entries"),
            (Self.text([]), ["1a"], "it has no entries"), (Array("{}".utf8), nil, "it has no member `entries`"),
            (Array("{\"entries\":{\"1a\":{}}}".utf8), nil, "an entry has no status"),
            (Array(Self.text(["1a"]).dropLast()), nil, "it is not JSON: "),
            // Half may be lost, not more. Others that came do not make up for them.
            (Self.text(["1", "2"]), ["1", "2", "3", "4"], nil),
            (Self.text(["1"]), ["1", "2", "3", "4"], "it has lost 3 of 4 entries"),
            (Self.text(["1", "6", "7", "8"]), ["1", "2", "3", "4"], "it has lost 3 of 4 entries"),
            (Self.text(["2"]), ["1"], "it has lost 1 of 1 entries"),
        ]
        for (text, kept, reason) in cases {
            switch (StatusListAnswer(text, kept: kept.map(Self.list)), reason) {
            case (.list, nil): break
            case (.refused(let found), let reason?): #expect(found.hasPrefix(reason))
            case (let answer, _): Issue.record("\(answer), not \(reason ?? "taken")")
            }
        }
    }

    @Test("a copy is read as it was written, and nothing else is")
    func copies() {
        let text = Array("{\"entries\":{}}\n\n{}".utf8)
        let validators = [
            ContentValidators(), ContentValidators(entityTag: "W/\"a: b\""),
            ContentValidators(entityTag: "\"a\"", lastModified: "Fri, 27 Nov 2026 10:00:00 GMT"),
        ]
        for validators in validators {
            let copy = StatusListCopy(
                source: "https://localhost:8450/status", confirmedAt: 1_795_773_600, validators: validators, text: text)
            #expect(StatusListCopy(copy.bytes) == copy)
            for length in 0..<(copy.bytes.count - text.count) {
                #expect(StatusListCopy(Array(copy.bytes.prefix(length))) == nil)
            }
        }
        let others = ["", "\n\n", "attestgate status list 2\nurl: a\nconfirmed: 1\n\n{}", "{\"entries\":{}}\n\n"]
        for other in others { #expect(StatusListCopy(Array(other.utf8)) == nil) }
    }
}

@Suite("The schedule of the status list")
struct FetchScheduleTests {
    private static let start = Instant(nanoseconds: 1_000_000_000_000)

    private func schedule(interval: Int64 = 1_000, retry: Int64 = 10, staleAfter: Int64 = 100_000) -> FetchSchedule {
        FetchSchedule(
            FetchSchedule.Rules(interval: interval, retry: retry, staleAfter: staleAfter),
            generator: SeededGenerator(seed: 7))
    }

    private func wait(_ schedule: FetchSchedule) -> Int64 {
        (schedule.due - Self.start).nanoseconds / 1_000_000_000
    }

    @Test("a start waits only if the list was confirmed lately")
    func begin() {
        for (age, expected) in [(nil, 0), (0, 1_000), (400, 600), (1_000, 0), (5_000, 0)] as [(Int64?, Int64)] {
            var schedule = schedule()
            schedule.begin(age: age, at: Self.start)
            #expect(wait(schedule) == expected)
        }
    }

    @Test("Cache-Control changes the interval at most fourfold, and never so that the list gets stale")
    func confirmed() {
        let cases: [(maxAge: Int64?, staleAfter: Int64, expected: Int64)] = [
            (nil, 100_000, 1_000), (0, 100_000, 1_000), (1, 100_000, 250), (600, 100_000, 600),
            (2_000, 100_000, 2_000), (86_400, 100_000, 4_000), (86_400, 8_000, 2_000), (86_400, 1_001, 1_000),
        ]
        for (maxAge, staleAfter, expected) in cases {
            var schedule = schedule(staleAfter: staleAfter)
            schedule.ended(.confirmed(maxAge: maxAge), at: Self.start)
            #expect((expected...(expected + expected / 10)).contains(wait(schedule)), "\(String(describing: maxAge))")
        }
    }

    @Test("failures are retried with growing delays, up to the interval")
    func failed() {
        var schedule = schedule()
        for longest in [10, 20, 40, 80, 160, 320, 640, 1_000, 1_000] as [Int64] {
            schedule.ended(.failed(retryAfter: nil), at: Self.start)
            #expect((longest / 2...longest).contains(wait(schedule)))
        }
        schedule.ended(.failed(retryAfter: 7_000), at: Self.start)
        #expect(wait(schedule) == 7_000)
        schedule.ended(.failed(retryAfter: 1_000_000), at: Self.start)
        #expect(wait(schedule) == 86_400)
        schedule.ended(.confirmed(maxAge: nil), at: Self.start)
        schedule.ended(.failed(retryAfter: nil), at: Self.start)
        #expect(wait(schedule) <= 10)
    }
}
