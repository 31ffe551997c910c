import Bytes
import Testing

@Suite("Scanning for controls")
struct ScanningTests {
    /// Octet by octet, as the rule is said.
    private func plain(_ bytes: [UInt8], from start: Int) -> Int {
        bytes[start...].firstIndex { $0 < 0x20 || $0 == 0x7f } ?? bytes.count
    }

    @Test("every octet is judged the same at every place of a word, whatever stands around it")
    func everyOctet() {
        for octet in UInt8.min...UInt8.max {
            for place in 0..<19 {
                for around: UInt8 in [0x20, 0x41, 0x7e, 0x80, 0xff] {
                    var bytes = [UInt8](repeating: around, count: 19)
                    bytes[place] = octet
                    #expect(bytes.span.firstControl(from: 0) == plain(bytes, from: 0), "\(octet) at \(place)")
                }
            }
        }
    }

    @Test("the first of several is found, from any start on, the end included")
    func severalAndStarts() {
        for first in 0..<18 {
            for second in 0..<18 {
                var bytes = [UInt8](repeating: 0x61, count: 18)
                bytes[first] = 0x0d
                bytes[second] = 0x7f
                for start in 0...18 { #expect(bytes.span.firstControl(from: start) == plain(bytes, from: start)) }
            }
        }
        let none: [UInt8] = []
        #expect(none.span.firstControl(from: 0) == 0)
    }
}
