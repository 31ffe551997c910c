import Testing

@testable import RequestProof

@Suite("Scanning eight bytes at a time")
struct FieldWordTests {
    /// The first octet from `start` on for which `isMeant` says so, looked at one by one.
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
                // What stands behind it changes nothing.
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
