import Encoding
import Testing

@testable import RequestProof

@Suite("Structured fields (RFC 8941)")
struct StructuredFieldTests {
    private func canonical(_ text: String) -> Result<String, Malformation> {
        do throws(Malformation) {
            return .success(String(decoding: try CanonicalForm.dictionary(Array(text.utf8).span), as: UTF8.self))
        } catch {
            return .failure(error)
        }
    }

    @Test(
        "the RFC's own dictionaries are in canonical form",
        arguments: [
            #"en="Applepie", da=:w4ZibGV0w6ZydGU=:"#,  // section 3.2
            "a=?0, b, c;foo=bar",
            "rating=1.5, feelings=(joy sadness)",
            "a=(1 2), b=3, c=4;aa=bb, d=(5 6);valid",
            #"x=("foo";a=1;b=2);lvl=5"#,  // section 3.1.1
            #"x=("foo" "bar");q=0.5"#,
            "x=42", "x=4.5", "x=-17", #"x="hello world""#, "x=foo123/456", "x=*a:b",  // section 3.3
            "x=:cHJldGVuZCB0aGlzIGlzIGJpbmFyeSBjb250ZW50Lg==:", "x=?0", "x",
            #"x="a\"b\\c""#, "x=()", "x=0", "x=999999999999999", "x=-999999999999999", "x=999999999999.999", "",
        ])
    func examples(_ text: String) {
        #expect(canonical(text) == .success(text))
    }

    @Test(
        "other spellings are read and written canonically",
        arguments: [
            ("  a=1", "a=1"), ("a=1  ", "a=1"), ("a=1,b=2", "a=1, b=2"), ("a=1 \t,\t b=2", "a=1, b=2"),
            ("a=?1", "a"), ("a;b=?1", "a;b"), ("a;  b=1", "a;b=1"), ("a=(  1   2  )", "a=(1 2)"),
            ("a=007", "a=7"), ("a=-0", "a=0"), ("a=00.50", "a=0.5"), ("a=1.000", "a=1.0"), ("a=-0.0", "a=0.0"),
            ("a=-01.10", "a=-1.1"),
        ])
    func normalisation(_ text: String, _ expected: String) {
        #expect(canonical(text) == .success(expected))
        #expect(canonical(expected) == .success(expected))
    }

    @Test(
        "anything but a dictionary is refused",
        arguments: [
            "A=1", "1=1", "=1", "a=", "a=1,", "a=1,,b=2", ",a=1", "a=1 b=2", "a= 1", "a =1", "a;=1", "a;", "a;B",
            "a=(1", "a=(1 2", "a=1)", "a=(1,2)", "a=(1\t2)", "a=((1))", "a=(1)(2)", #"a=("x""y")"#, "a=(1;)",
            #"a="x"#, #"a="x\"#, #"a="x\y""#, "a=\"x\u{7f}\"", "a=\"x\n\"", "a=\"é\"", "a='x'",
            "a=:YQ==", "a=:Y Q==:", "a=:YQ-_:", "a=?", "a=?2", "a=?true", "a=-", "a=--1", "a=1.", "a=.1", "a=1e3",
            "a=+1",
            "\ta=1", "a=1\n", "a=1\r\n", "a=1\0", "a=é", "a=%\"x\"", "a=@1659578233", "a=&", "a\u{80}=1",
        ])
    func syntax(_ text: String) {
        #expect(canonical(text) == .failure(.syntax), "\(text)")
    }

    @Test(
        "numbers out of range are refused, not truncated",
        arguments: [
            "a=1000000000000000", "a=-1000000000000000", "a=9223372036854775808", "a=0000000000000001",
            "a=1000000000000.1", "a=1.0001", "a=99999999999999999999999999999999999999",
        ])
    func ranges(_ text: String) {
        #expect(canonical(text) == .failure(.numberTooLong))
    }

    @Test("counts and lengths are bounded")
    func bounds() {
        func members(_ count: Int) -> String { (0..<count).map { "m\($0)" }.joined(separator: ", ") }
        func items(_ count: Int) -> String { "a=(" + (0..<count).map { "\($0)" }.joined(separator: " ") + ")" }
        func parameters(_ count: Int) -> String { "a=(1" + (0..<count).map { ";p\($0)" }.joined() + " 2;q);r" }
        #expect(canonical(members(16)) == .success(members(16)))
        #expect(canonical(members(17)) == .failure(.tooMany))
        #expect(canonical(items(64)) == .success(items(64)))
        #expect(canonical(items(65)) == .failure(.tooMany))
        #expect(canonical(parameters(16)) == .success(parameters(16)))
        #expect(canonical(parameters(17)) == .failure(.tooMany))
        let key = String(repeating: "k", count: 64)
        #expect(canonical(key) == .success(key))
        #expect(canonical(key + "k") == .failure(.tooLong))
        let long = "a=\"" + String(repeating: "x", count: 16_384 - 4) + "\""
        #expect(canonical(long) == .success(long))
        #expect(canonical(long + " ") == .failure(.tooLong))
    }

    @Test("integers are written exactly", arguments: [0, 9, 10, -1, 42, 999_999_999_999_999, Int64.max, Int64.min])
    func integers(_ value: Int64) {
        var bytes: [UInt8] = []
        FieldWriter.append(integer: value, to: &bytes)
        #expect(String(decoding: bytes, as: UTF8.self) == "\(value)")
    }
}

@Suite("Scanning eight bytes at a time")
struct FieldWordTests {
    /// Returns the position of the first matching byte from `start` on, checked one by one.
    private func first(in bytes: [UInt8], from start: Int, _ isMeant: (UInt8) -> Bool) -> Int {
        bytes[start...].firstIndex(where: isMeant) ?? bytes.count
    }

    @Test("each byte is judged as if alone, wherever it stands", arguments: [0, 1, 2, 7, 8, 9, 15, 16, 17])
    func everyOctet(_ count: Int) {
        let letters = Set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=".utf8)
        var wrong: [String] = []
        for place in 0..<count {
            for byte in UInt8.min...UInt8.max {
                var bytes = [UInt8](repeating: UInt8(ascii: "x"), count: count)
                bytes[place] = byte
                // The bytes after it have no effect.
                if place + 1 < count { bytes[place + 1] = byte &+ 1 }
                for start in [0, place, place + 1] {
                    let found = [
                        bytes.span.firstMarked(from: start) { $0.marksInString },
                        bytes.span.firstMarked(from: start) { $0.marksInByteSequence },
                        bytes.span.firstMarked(from: start) { $0.marksInDerived },
                        bytes.span.firstMarked(from: start) { $0.marksInValue },
                    ]
                    let right = [
                        first(in: bytes, from: start) { !(0x20...0x7e).contains($0) || $0 == 0x22 || $0 == 0x5c },
                        first(in: bytes, from: start) { !letters.contains($0) },
                        first(in: bytes, from: start) { !(0x21...0x7e).contains($0) },
                        first(in: bytes, from: start) { !(0x20...0x7e).contains($0) && $0 != 0x09 },
                    ]
                    if found != right { wrong.append("\(bytes) from \(start)") }
                }
            }
        }
        #expect(wrong == [])
    }

    @Test("texts are equal only if every byte is", arguments: 0...20)
    func same(_ count: Int) {
        func isSame(_ left: [UInt8], _ right: [UInt8]) -> Bool { left.span.isSame(as: right) }
        let text = (0..<count).map { UInt8($0) }
        #expect(isSame(text, text))
        #expect(!isSame(text, text + [0]))
        for place in 0..<count {
            var other = text
            other[place] ^= 0x80
            #expect(!isSame(text, other))
        }
    }
}
