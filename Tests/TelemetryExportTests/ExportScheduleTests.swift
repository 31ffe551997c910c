import EventLoop
import Testing

@testable import TelemetryExport
@testable import Upstream

@Suite("The export schedule")
struct ExportScheduleTests {
    private static let again = ExportAnswer.again(after: nil, reason: "status 503")
    private let start = Instant(nanoseconds: 1_000)

    @Test("waits double up to a minute, each randomly shortened by at most half")
    func doubles() {
        for (chance, share) in [(0.0, 1.0), (1.0, 0.5), (0.5, 0.75)] {
            var schedule = ExportSchedule()
            let waits = (0..<8).map { _ in
                // The clock does not advance, because another test is about the time limit.
                guard case .again(let wait) = schedule.ended(Self.again, at: start, chance: chance).decision else {
                    return -1.0
                }
                return Double(wait.nanoseconds) / 1e9
            }
            #expect(waits == [1, 2, 4, 8, 16, 32, 60, 60].map { $0 * share })
        }
    }

    @Test("Retry-After lengthens a wait up to a limit, and never shortens it")
    func retryAfter() {
        for (said, seconds) in [(Int64(0), Int64(1)), (1, 1), (7, 7), (300, 300)] {
            var schedule = ExportSchedule()
            let decision = schedule.ended(.again(after: said, reason: "status 429"), at: start, chance: 0).decision
            #expect(decision == .again(after: .seconds(seconds)))
        }
        var schedule = ExportSchedule()
        let decision = schedule.ended(.again(after: 999_999_999, reason: "status 429"), at: start, chance: 0).decision
        #expect(decision == .again(after: .seconds(300)))
    }

    @Test("spans are dropped after five minutes of failures, and later ones wait as before")
    func givesUp() {
        var schedule = ExportSchedule()
        var now = start
        var waited: Int64 = 0
        while case .again(let wait) = schedule.ended(Self.again, at: now, chance: 0).decision {
            now = now + wait
            waited += wait.nanoseconds
            guard waited < 600_000_000_000 else { break }
        }
        #expect(waited > 200_000_000_000 && waited <= 300_000_000_000)
        #expect(schedule.pause == .seconds(60))
        guard case .again = schedule.ended(Self.again, at: now, chance: 0).decision else {
            Issue.record("the next ones have their own five minutes")
            return
        }
    }

    @Test("refused spans are dropped, and the next are sent at once")
    func refused() {
        var schedule = ExportSchedule()
        _ = schedule.ended(Self.again, at: start, chance: 0)
        #expect(
            schedule.ended(.refused(reason: "status 400"), at: start, chance: 0).decision
                == .done(.refused, rejected: 0))
        #expect(schedule.pause == TimeSpan(nanoseconds: 0))
    }

    @Test("operators are informed once when exports begin to fail and once when they recover")
    func news() {
        var schedule = ExportSchedule()
        let answers: [ExportAnswer] = [
            .accepted(rejected: 0), Self.again, Self.again, .refused(reason: "status 400"),
            .refused(reason: "status 400"),
            .accepted(rejected: 2), .accepted(rejected: 1), .accepted(rejected: 0), .accepted(rejected: 0), Self.again,
            .accepted(rejected: 0),
        ]
        let news = answers.map { schedule.ended($0, at: start, chance: 0).news }
        #expect(
            news == [
                nil, .failing(reason: "status 503"), nil, .refused(reason: "status 400"), nil, .rejecting, nil,
                .recovered,
                nil, .failing(reason: "status 503"), .recovered,
            ])
    }
}

@Suite("Export answers")
struct ExportAnswerTests {
    private static func answer(_ status: UInt16, _ content: String = "", retryAfter: Int64? = nil) -> ExportAnswer {
        var answer = OutboundAnswer()
        answer.status = status
        answer.retryAfter = retryAfter
        answer.content = Array(content.utf8)
        return ExportAnswer(.success(answer))
    }

    @Test("2xx is success, whatever the content", arguments: [200, 202, 204] as [UInt16])
    func accepted(status: UInt16) {
        for content in ["", "{}", "no JSON", "[]", "{\"partialSuccess\":{}}", "{\"partialSuccess\":7}"] {
            #expect(Self.answer(status, content) == .accepted(rejected: 0))
        }
    }

    @Test("rejected spans are read from a JSON string or number")
    func partial() {
        #expect(Self.answer(200, "{\"partialSuccess\":{\"rejectedSpans\":\"12\"}}") == .accepted(rejected: 12))
        #expect(Self.answer(200, "{\"partialSuccess\":{\"rejectedSpans\":12}}") == .accepted(rejected: 12))
        #expect(Self.answer(200, "{\"partialSuccess\":{\"rejectedSpans\":\"-1\"}}") == .accepted(rejected: 0))
    }

    @Test("an answer with too much content is judged by its status, so that spans are not resent")
    func oversize() {
        for status: UInt16 in [200, 204] {
            #expect(ExportAnswer(.failure(.contentTooLarge(status: status))) == .accepted(rejected: 0))
        }
        #expect(ExportAnswer(.failure(.contentTooLarge(status: 503))) == .again(after: nil, reason: "status 503"))
        #expect(ExportAnswer(.failure(.contentTooLarge(status: 400))) == .refused(reason: "status 400"))
    }

    @Test("429, 502, 503, 504 and no answer are retried, and nothing else")
    func again() {
        for status: UInt16 in [429, 502, 503, 504] {
            #expect(Self.answer(status, retryAfter: 3) == .again(after: 3, reason: "status \(status)"))
        }
        #expect(ExportAnswer(.failure(.timeout)) == .again(after: nil, reason: "timeout"))
        for status: UInt16 in [301, 400, 401, 403, 404, 408, 413, 415, 500, 501, 505] {
            #expect(Self.answer(status) == .refused(reason: "status \(status)"))
        }
    }
}

@Suite("The budget of waiting spans")
struct SpanBudgetTests {
    @Test("a budget never exceeds its limit, and returned bytes can be used again")
    func budget() {
        let budget = SpanBudget()
        #expect(budget.take(60, limit: 100) && !budget.take(41, limit: 100) && budget.bytes == 60)
        #expect(budget.take(40, limit: 100))
        budget.give(60)
        #expect(budget.bytes == 40 && budget.take(60, limit: 100))
    }
}
