import Chance
import Testing

@testable import Encoding

@Suite("Hexadecimal")
struct HexadecimalTests {
    @Test("bytes and numbers are written in lower case")
    func written() {
        #expect(Hexadecimal.encode([0x00, 0x9a, 0xff]) == "009aff")
        #expect(Hexadecimal.encode(UInt32(0xbeef), digits: 8) == "0000beef")
        #expect(Hexadecimal.encode(UInt64.max, digits: 4) == "ffffffffffffffff")
        #expect(Hexadecimal.decode("009aff") == [0x00, 0x9a, 0xff])
        #expect(Hexadecimal.decode("") == [])
    }

    @Test(
        "anything but pairs of lower-case digits is refused", arguments: ["0", "0A", "0g", "0x00", " 00", "00 ", "é"])
    func refused(_ text: String) {
        #expect(Hexadecimal.decode(text) == nil)
    }

    @Test("single digits are read in either case, or in lower case alone")
    func digits() {
        for byte in UInt8.min...UInt8.max {
            let value = byte < 0x80 ? Character(Unicode.Scalar(byte)).hexDigitValue.map { UInt8($0) } : nil
            #expect(Hexadecimal.value(byte) == value)
            #expect(Hexadecimal.value(lowercase: byte) == ((0x41...0x46).contains(byte) ? nil : value))
        }
    }
}

@Suite("UTF-8")
struct UTF8Tests {
    @Test("all sequences of up to three bytes are judged as by the standard library")
    func short() {
        var wrong: [[UInt8]] = []
        func check(_ bytes: [UInt8]) {
            if bytes.span.isUTF8 != (String(validating: bytes, as: UTF8.self) != nil) { wrong.append(bytes) }
        }
        check([])
        // The bytes at which a rule begins or ends.
        let edges: [UInt8] = [
            0x00, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xec, 0xed, 0xee, 0xef,
            0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xff,
        ]
        for first in UInt8.min...UInt8.max {
            check([first])
            for second in UInt8.min...UInt8.max {
                check([first, second])
                for third in edges {
                    check([first, second, third])
                    if first >= 0xf0 { for fourth in edges { check([first, second, third, fourth]) } }
                }
            }
        }
        #expect(wrong.isEmpty)
    }

    @Test("texts with a changed byte are judged as by the standard library")
    func changed() {
        let seed = RunSeed.tell()
        var random = SeededGenerator(seed: seed)
        let text = Array("Größe: 5 €, 𝄞 und 漢字".utf8)
        for _ in 0..<5_000 {
            var bytes = text
            bytes[Int(random.next() % UInt64(bytes.count))] = UInt8(truncatingIfNeeded: random.next())
            #expect(bytes.span.isUTF8 == (String(validating: bytes, as: UTF8.self) != nil), "\(bytes)")
        }
    }
}

@Suite("Texts in JSON")
struct JSONWriterTests {
    @Test("quotes, backslashes and controls are escaped, and nothing else")
    func escapes() throws {
        #expect(JSONWriter.quoted("a\"b\\c\nd\te\u{7f}é\u{2028}") == #""a\"b\\c\nd\u0009e\u007fé\#u{2028}""#)
        let all = String(String.UnicodeScalarView((0..<0x300).compactMap(Unicode.Scalar.init)))
        let object = try JSONReader.object(in: Array(#"{"a":\#(JSONWriter.quoted(all))}"#.utf8), longest: 8_192)
        #expect(object["a"]?.spells(all) == true)
    }

    @Test("members are written in the order of the calls, without what is not there")
    func members() {
        let none: Int? = nil
        let bytes = JSONWriter.object { object in
            object.object("left out") { $0.member("a", none) }
            object.member("b", "\"")
            object.member("c", nil as String?)
            object.object("kept", keepsEmpty: true) { _ in }
            object.object("d\n") { object in
                object.member("e", [String]())
                object.object("left out") { _ in }
                object.member("f", ["x", "y\\"])
            }
            object.member("g", true)
            object.member("h", -5)
            object.member("i", [{ $0.member("j", 1) }, { _ in }])
        }
        #expect(
            String(decoding: bytes, as: UTF8.self)
                == #"{"b":"\"","kept":{},"d\n":{"e":[],"f":["x","y\\"]},"g":true,"h":-5,"i":[{"j":1},{}]}"#)
        #expect(JSONWriter.object { $0.object("a") { $0.object("b") { _ in } } } == Array("{}".utf8))
    }
}
