import Bytes
import Foundation
import Testing
import Vocabulary

@testable import Gateway

@Suite("The answers to refused requests")
struct DenialResponsesTests {
    @Test("are JSON of the announced length, whatever is refused", arguments: Denial.allCases)
    func json(_ denial: Denial) throws {
        let responses = DenialResponses(uriPrefix: "https://example.org/#")
        for component in [nil, "x-location"] {
            let refusal = Refusal(denial, "not for the client", component: component)
            var body = ByteBuffer(pool: BufferPool())
            responses.append(refusal, TraceID(high: 1, low: 2), to: &body)
            let bytes = body.copy()
            #expect(UInt64(bytes.count) == responses.contentLength(of: refusal))
            let object = try #require(try JSONSerialization.jsonObject(with: Data(bytes)) as? [String: String])
            let code = String(describing: denial.row.code)
            #expect(object["error"] == code && object["error_uri"] == "https://example.org/#\(code)")
            #expect(object["trace_id"] == "00000000000000010000000000000002")
            let sentence = String(describing: denial.row.sentence)
            #expect(object["error_description"] == sentence + (component.map { " Missing: \($0)." } ?? ""))
            #expect(object.count == 4)
        }
    }
}
