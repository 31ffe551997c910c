import Encoding
import Foundation
import Testing

@Suite("JSON")
struct JSONReaderTests {
    private func read(_ text: String, longest: Int = 4096) -> Result<JSONObject, JSONFault> {
        read(Array(text.utf8), longest: longest)
    }

    private func read(_ text: [UInt8], longest: Int = 4096) -> Result<JSONObject, JSONFault> {
        do throws(JSONFault) { return .success(try JSONReader.object(in: text, longest: longest)) } catch {
            return .failure(error)
        }
    }

    /// Parses the value as the only member of an object.
    private func value(_ text: String) -> Result<JSONValue?, JSONFault> { read(#"{"a":\#(text)}"#).map { $0["a"] } }

    @Test("values are read as RFC 8259 defines them")
    func values() {
        let expected: [(String, JSONValue)] = [
            ("null", .null), ("true", .boolean(true)), ("false", .boolean(false)), ("0", .integer(0)),
            ("-0", .integer(0)), ("12", .integer(12)), ("-9223372036854775808", .integer(.min)),
            ("9223372036854775808", .number), ("1.0", .number), ("1e3", .number), ("1E+3", .number),
            ("-0.5e-3", .number),
            ("\"\"", .text([])), ("\"é\"", .text([0xc3, 0xa9])), (#""\u00e9\u00E9""#, .text([0xc3, 0xa9, 0xc3, 0xa9])),
            (#""\"\\\/\b\f\n\r\t""#, .text([0x22, 0x5c, 0x2f, 8, 12, 10, 13, 9])),
            (#""\ud83d\ude00""#, .text([0xf0, 0x9f, 0x98, 0x80])), (#""\u0000""#, .text([0])),
            ("\"\u{7f}\"", .text([0x7f])), ("[]", .array([])), ("[ 1 , [ ] ]", .array([.integer(1), .array([])])),
        ]
        for (text, result) in expected { #expect(value(text) == .success(result), "\(text)") }
        #expect(read(" \t\r\n{ \t\r\n} \t\r\n").map(\.members.count) == .success(0))
        #expect(read(#"{"b":{"c":1},"a":2}"#).map { $0["b"]?.object?["c"] } == .success(.integer(1)))
    }

    @Test("input outside the grammar is refused")
    func malformed() {
        let wrong = [
            "", "01", "+1", "1.", ".5", "1e", "1e+", "-", "0x1", "NaN", "Infinity", "tru", "True", "'a'", "\"", "\"a",
            "\"\n\"", "\"\u{1}\"", #""\x""#, #""\u12""#, #""\u123g""#, #""\ud800""#, #""\udc00""#, #""\ud800\u0041""#,
            #""\ud800\ud800""#, #""\ud83d"#, "[1,]", "[,1]", "[1 2]", "[1", "{,}", #"{"a"}"#, #"{"a":}"#, "{1:2}",
            #"{"a":1,}"#, #"{"a" 1}"#, "{", "/**/1", "1 // x", "\u{a0}1", "\u{2028}1",
        ]
        for text in wrong { #expect(value(text) == .failure(.malformed), "\(text)") }
        for text in ["", " ", "{", "\u{feff}{}", "\0{}", "x"] { #expect(read(text) == .failure(.malformed)) }
        for text in ["{}{}", "{} x", "{},", "{}\0", "1 1"] { #expect(read(text) == .failure(.trailingBytes)) }
        for text in ["[]", "1", "\"a\"", "null"] { #expect(read(text) == .failure(.notAnObject)) }
    }

    @Test("a repeated name is refused in any spelling; look-alikes are different names")
    func names() {
        let twice = [#"{"a":1,"a":1}"#, #"{"a":1,"\u0061":2}"#, #"{"b":{"":1,"c":2,"":3}}"#, #"{"x":[{"a":1,"a":2}]}"#]
        for text in twice { #expect(read(text) == .failure(.duplicateName)) }
        #expect(read(#"{"K":1,"\u212a":2}"#).map { $0["K"] } == .success(.integer(1)))
        #expect(read(#"{"\u212a":2}"#).map { $0["K"] } == .success(nil))
    }

    @Test("only UTF-8 is read")
    func encodings() {
        let wrong: [[UInt8]] = [
            [0x7b, 0x22, 0xff, 0x22, 0x7d], [0x7b, 0x22, 0xc0, 0x80, 0x22, 0x7d],
            [0x7b, 0x22, 0xed, 0xa0, 0x80, 0x22, 0x7d],
            [0x7b, 0x22, 0xc3], [0xff, 0xfe, 0x7b, 0, 0x7d, 0],
        ]
        for text in wrong { #expect(read(text) == .failure(.notUTF8)) }
        // UTF-16 and UTF-32, which decoders detect.
        for text: [UInt8] in [[0x7b, 0, 0x7d, 0], [0, 0x7b, 0, 0x7d], [0, 0, 0, 0x7b, 0, 0, 0, 0x7d]] {
            #expect(read(text) == .failure(.malformed))
        }
    }

    @Test("depth, count and length are bounded")
    func bounds() {
        func nested(_ depth: Int) -> String {
            #"{"a":"# + String(repeating: "[", count: depth - 1) + String(repeating: "]", count: depth - 1) + "}"
        }
        #expect(read(nested(JSONReader.depthLimit)).failure == nil)
        #expect(read(nested(JSONReader.depthLimit + 1)) == .failure(.tooDeep))
        #expect(read(String(repeating: #"{"a":"#, count: 500)) == .failure(.tooDeep))
        func members(_ count: Int) -> String { "{" + (0..<count).map { "\"\($0)\":0" }.joined(separator: ",") + "}" }
        #expect(read(members(JSONReader.countLimit)).failure == nil)
        #expect(read(members(JSONReader.countLimit + 1)) == .failure(.tooMany))
        func elements(_ count: Int) -> String { "[" + (0..<count).map { "\($0)" }.joined(separator: ",") + "]" }
        #expect(value(elements(JSONReader.countLimit)).failure == nil)
        #expect(value(elements(JSONReader.countLimit + 1)) == .failure(.tooMany))
        func many(_ count: Int) -> JSONObject? {
            try? JSONReader.object(in: Array(members(count).utf8), longest: 1 << 20, most: 10_000)
        }
        #expect(many(10_000)?.members.count == 10_000)
        #expect(many(10_001) == nil)
        func deep(_ depth: Int) -> JSONObject? {
            try? JSONReader.object(in: Array(nested(depth).utf8), longest: 1 << 20, deepest: 32)
        }
        #expect(deep(32) != nil)
        #expect(deep(33) == nil)
        #expect(read("{}   ", longest: 5).failure == nil)
        #expect(read("{}    ", longest: 5) == .failure(.tooLong))
    }

    @Test("with any byte replaced, what is accepted is what Foundation reads")
    func exchangedBytes() throws {
        let text = Array(#"{"a":[1,-2.5e3,"\u00e9é\n",true,null,{"b":"c"}],"d":"\ud83d\ude00","e":12}"#.utf8)
        var admitted = 0
        for index in text.indices {
            for byte in UInt8.min...UInt8.max {
                var other = text
                other[index] = byte
                guard case .success(let object) = read(other) else { continue }
                admitted += 1
                let theirs = try #require(try JSONSerialization.jsonObject(with: Data(other)) as? [String: Any])
                #expect(theirs.count == object.members.count)
                for member in object.members {
                    let name = String(decoding: member.name, as: UTF8.self)
                    if let text = member.value.text {
                        #expect(theirs[name] as? String == String(decoding: text, as: UTF8.self))
                    } else if let integer = member.value.integer {
                        #expect((theirs[name] as? NSNumber)?.int64Value == integer)
                    } else {
                        #expect(theirs[name] is [Any])
                    }
                }
            }
        }
        #expect(admitted > text.count)
    }

    @Test("every truncated text is refused")
    func truncated() {
        let text = Array(#"{"a":[1,-2.5e3,"\u00e9é",true,null,{"b":"c"}]}"#.utf8)
        #expect(read(text).failure == nil)
        for count in text.indices { #expect(read(Array(text[..<count])).failure != nil) }
    }
}
