import Bytes
import Testing

@Suite("Scanning bytes")
struct ScanningTests {
    /// Returns the result of a search byte by byte.
    private func plain(_ bytes: [UInt8], from start: Int) -> Int {
        bytes[start...].firstIndex { $0 < 0x20 || $0 == 0x7f } ?? bytes.count
    }

    @Test("every byte gives the same result at every place of a word, whatever surrounds it")
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

    @Test("the first of several matches is found from any start, the end included")
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

    // MARK: - Names

    private func plainName(_ bytes: [UInt8], from start: Int) -> Int {
        bytes[start...].firstIndex { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "-"): false
            default: true
            }
        } ?? bytes.count
    }

    @Test("a byte other than letters and hyphens is found at every place of a word")
    func besideLetters() {
        for octet in UInt8.min...UInt8.max {
            for place in 0..<19 {
                for around: UInt8 in [0x2d, 0x41, 0x5a, 0x61, 0x7a, 0x3a, 0x80, 0xff] {
                    var bytes = [UInt8](repeating: around, count: 19)
                    bytes[place] = octet
                    for start in [0, 1, 11, 19] {
                        #expect(
                            bytes.span.firstBesideLetters(from: start) == plainName(bytes, from: start),
                            "\(octet) at \(place) in \(around), from \(start)")
                    }
                }
            }
        }
    }

    private func plainlyLowercased(_ byte: UInt8) -> UInt8 { (0x41...0x5a).contains(byte) ? byte + 0x20 : byte }

    private func spell(_ sent: [UInt8], _ name: [UInt8]) -> Bool { sent.span.spells(lowercase: name.span) }

    @Test("names are equal without regard to case, at every length and place")
    func spelling() {
        for length in 0...34 {
            let name = (0..<length).map { UInt8(0x61 + $0 % 26) }
            #expect(spell(name, name), "\(length) octets")
            #expect(!spell(name + [0x61], name))
            for place in 0..<length {
                for octet in UInt8.min...UInt8.max {
                    var other = name
                    other[place] = octet
                    let isSame = spell(other, name)
                    #expect(isSame == (plainlyLowercased(octet) == name[place]), "\(octet) at \(place) of \(length)")
                }
            }
        }
    }

    @Test("bytes that are not letters are not equal though they differ only in the case bit")
    func noLetters() {
        for octet in UInt8.min...UInt8.max where plainlyLowercased(octet) == octet {
            for other in UInt8.min...UInt8.max {
                let isSame = spell([UInt8](repeating: other, count: 9), [UInt8](repeating: octet, count: 9))
                #expect(isSame == (plainlyLowercased(other) == octet), "\(other), \(octet)")
            }
        }
    }

    @Test("the ends of a name and their hash are the same for every spelling")
    func hash() {
        for name in [
            "a", "te", "via", "Host", "Accept", "Content-Length", "Sec-WebSocket-Accept", "If-Unmodified-Since",
        ] {
            let ends = [name, name.lowercased(), name.uppercased()].map { CaselessEnds(of: Array($0.utf8).span) }
            #expect(ends.allSatisfy { $0 == ends[0] && $0.hash == ends[0].hash }, "\(name)")
        }
    }

    @Test("names of up to 16 bytes are compared by their ends alone")
    func ends() {
        for count in 1...17 {
            let name = [UInt8](repeating: UInt8(ascii: "n"), count: count)
            let known = CaselessEnds(of: name.span)
            #expect(known.areAll == (count <= 16))
            for place in name.indices where known.areAll {
                var other = name
                other[place] = UInt8(ascii: "m")
                #expect(CaselessEnds(of: other.span) != known, "\(count), \(place)")
            }
            #expect(CaselessEnds(of: [UInt8](repeating: UInt8(ascii: "n"), count: count + 1).span) != known)
        }
    }
}
