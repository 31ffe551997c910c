import Bytes
import Foundation
import Testing

@testable import Telemetry

@Suite("Spans as text")
struct SpanTextTests {
    private static let identity = SpanText.Identity(
        trace: (1, 0xab), id: 2, parent: 0, isParentRemote: false, flags: 1, kind: .server,
        start: 1_700_000_000_000_000_001, end: .max)

    private func read(_ text: inout SpanText) throws -> [[String: Any]] {
        var block: [UInt8] = []
        text.move(to: &block)
        #expect(block.first == UInt8(ascii: ","))
        let list = Data(Array("[".utf8) + block.dropFirst() + Array("]".utf8))
        return try #require(try JSONSerialization.jsonObject(with: list) as? [[String: Any]])
    }

    @Test("ids are hexadecimal, and 64-bit numbers are strings")
    func types() throws {
        var text = SpanText()
        text.span(Self.identity, name: { $0.append("a b") }) { $0.attribute("n", number: .max) }
        let span = try #require(try read(&text).first)
        #expect(span["traceId"] as? String == "000000000000000100000000000000ab")
        #expect(span["spanId"] as? String == "0000000000000002" && span["parentSpanId"] == nil)
        #expect(span["startTimeUnixNano"] as? String == "1700000000000000001")
        #expect(span["endTimeUnixNano"] as? String == "18446744073709551615")
        #expect(span["flags"] as? Int == 0x101 && span["kind"] as? Int == 2 && span["status"] == nil)
        let attribute = try #require((span["attributes"] as? [[String: Any]])?.first)
        #expect((attribute["value"] as? [String: String]) == ["intValue": "18446744073709551615"])
    }

    @Test("attributes of any bytes keep the list well-formed")
    func hostile() throws {
        let hostile = (UInt8.min...UInt8.max).map { $0 } + Array("\"}],\"a\":[{\"".utf8)
        var text = SpanText()
        for count in 0..<3 {
            text.span(Self.identity, name: { $0.append("x") }, isFailed: count == 1) { text in
                for _ in 0..<count { text.attribute("key", text: hostile) }
            }
        }
        let (count, isTorn) = (text.count, text.isTorn)
        #expect(count == 3 && !isTorn)
        let spans = try read(&text)
        let expected = String(String.UnicodeScalarView(hostile.map { Unicode.Scalar($0) }))
        for (count, span) in spans.enumerated() {
            let attributes = try #require(span["attributes"] as? [[String: Any]])
            #expect(attributes.count == count)
            for attribute in attributes {
                #expect((attribute["value"] as? [String: String])?["stringValue"] == expected)
            }
            #expect((span["status"] as? [String: Int]) == (count == 1 ? ["code": 2] : nil))
        }
    }

    @Test("a span that does not fit is reported and does not affect later ones")
    func torn() throws {
        var text = SpanText()
        text.span(Self.identity, name: { $0.append("x") }) { text in
            for _ in 0..<100 { text.attribute("key", text: [UInt8](repeating: 0, count: 1_000)) }
        }
        var (count, isTorn) = (text.count, text.isTorn)
        #expect(count == 1 && isTorn)
        text.clear()
        (count, isTorn) = (text.count, text.isTorn)
        #expect(count == 0 && !isTorn)
        text.span(Self.identity, name: { $0.append("y") }) { _ in }
        #expect(try read(&text).count == 1)
    }
}
