import Testing
import Vocabulary

@Suite("Serial numbers of certificates")
struct CertificateSerialTests {
    private let random = (0..<16).map { UInt8($0 &* 17) }

    @Test("our own serial number is a one and any 16 random bytes")
    func own() {
        #expect(CertificateSerial(random: random)?.bytes == [1] + random)
        #expect(CertificateSerial(random: random)?.description == "0100112233445566778899AABBCCDDEEFF")
        #expect(CertificateSerial(random: Array(random.dropLast())) == nil)
        #expect(CertificateSerial(random: random + [0]) == nil)
    }

    @Test("a serial number has 1 to 20 bytes in DER without a leading zero")
    func octets() {
        #expect(CertificateSerial([7])?.bytes == [7])
        #expect(CertificateSerial([]) == nil)
        #expect(CertificateSerial([0, 7]) == nil)
        let rest = [UInt8](repeating: 0, count: 19)
        #expect(CertificateSerial([0x7F] + rest) != nil)
        #expect(CertificateSerial([0x80] + rest) == nil)
        #expect(CertificateSerial([0x80] + rest.dropLast()) != nil)
        #expect(CertificateSerial([1] + rest + [0]) == nil)
    }

    @Test("a serial number has one spelling: upper-case pairs of digits")
    func text() {
        for serial in [CertificateSerial(random: random), CertificateSerial([7])].compactMap({ $0 }) {
            #expect(CertificateSerial(serial.description) == serial)
        }
        let long = String(repeating: "11", count: 21)
        for text in ["", "0", "7", "0007", "ab", "0G", " 07", "07 ", "-7", "0x07", long] {
            #expect(CertificateSerial(text) == nil)
        }
    }
}
