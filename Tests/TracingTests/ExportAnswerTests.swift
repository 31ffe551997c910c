import Testing

@testable import Tracing
@testable import Upstream

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
