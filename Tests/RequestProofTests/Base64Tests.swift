@testable import RequestProof
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
