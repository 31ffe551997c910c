import Encoding
import Testing

@Suite("Base64")
struct Base64Tests {
    private func decode(_ text: String) -> [UInt8]? {
        var bytes: [UInt8] = [7]
        let isDecoded = Base64.decode(Array(text.utf8).span, appendingTo: &bytes)
        #expect(bytes.first == 7 && (isDecoded || bytes.count == 1))
        return isDecoded ? Array(bytes.dropFirst()) : nil
    }

    private func encode(_ bytes: [UInt8]) -> String {
        var text: [UInt8] = []
        Base64.encode(bytes.span, appendingTo: &text)
        return String(decoding: text, as: UTF8.self)
    }

    @Test(
        "the examples of RFC 4648 section 10 are encoded and decoded",
        arguments: [
            ("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ])
    func examples(_ plain: String, _ text: String) {
        #expect(encode(Array(plain.utf8)) == text)
        #expect(decode(text) == Array(plain.utf8))
    }

    @Test("every byte value survives encoding and decoding")
    func allBytes() {
        let bytes = (0...255).map { UInt8($0) }
        for count in 250...256 {
            #expect(decode(encode(Array(bytes.prefix(count)))) == Array(bytes.prefix(count)))
        }
    }

    @Test(
        "second spellings and other alphabets are refused",
        arguments: [
            "Zg", "Zg=", "Zm8", "Zm9vYg", "Z", "Zg===", "====", "=", "Zg==Zg==", "Zm8=Zm9v",  // padding
            "Zh==", "Zv==", "Zm9=", "Zm+=", "Zm9vYh==",  // pad bits
            "Zm9-", "Zm_v", "Zm 9", "Zm9\n", "Zm9*", "Z=g=", "=Zg=", "Zg=g", "Zmé=", "\0\0\0\0", "Zm9vZm 9",
        ])
    func refused(_ text: String) {
        #expect(decode(text) == nil)
    }
}

extension Base64Tests {
    @Test("unused bits are ignored where that is asked for, and nothing else")
    func lenient() {
        #expect(Base64.decode("Zh==", isCanonical: false) == [0x66])
        #expect(Base64.decode("Zm9=", isCanonical: false) == [0x66, 0x6f])
        for text in ["Zg", "Zg=", "Zm9v=", "Zg==Zg==", "====", "Zm9v\n", "Zm9-", "Zg=A"] {
            #expect(Base64.decode(text, isCanonical: false) == nil, "\(text)")
        }
    }
}

@Suite("Base64url")
struct Base64URLTests {
    @Test(
        "values are encoded without padding and decoded",
        arguments: [
            ([], ""), ([0x66], "Zg"), ([0x66, 0x6f], "Zm8"), ([0x66, 0x6f, 0x6f], "Zm9v"),
            ([0xfb, 0xff, 0xfe], "-__-"),
        ] as [([UInt8], String)])
    func examples(_ bytes: [UInt8], _ text: String) {
        #expect(Base64URL.encode(bytes) == text)
        #expect(Base64URL.decode(text) == bytes)
    }

    @Test("every byte value survives encoding and decoding")
    func allBytes() {
        let bytes = (0...255).map { UInt8($0) }
        for count in 250...256 {
            let text = Base64URL.encode(Array(bytes.prefix(count)))
            #expect(text.utf8.count == Base64URL.length(ofBytes: count))
            #expect(Base64URL.decode(text) == Array(bytes.prefix(count)))
        }
    }

    @Test(
        "second spellings and other alphabets are refused",
        arguments: [
            "Zg==", "Zm8=", "Z", "Zm9vY", "=", "Zh", "Zv", "Zm9vYh", "Zm-", "Zm9+", "Zm/v", "Zm 9", "Zm9\n", "é",
            "\0\0",
        ])
    func refused(_ text: String) {
        #expect(Base64URL.decode(text) == nil)
    }

    @Test("the room determines the length")
    func length() {
        var room = [UInt8](repeating: 0, count: 3)
        for (text, isDecoded) in [("Zm9v", true), ("Zm8", false), ("Zm9vYg", false)] {
            var span = room.mutableSpan
            #expect(Base64URL.decode(Array(text.utf8).span, into: &span) == isDecoded)
        }
        #expect(room == Array("foo".utf8))
    }
}
