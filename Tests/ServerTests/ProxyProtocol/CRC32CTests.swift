import Testing

@testable import Server

@Suite("CRC32C")
struct CRC32CTests {
    @Test(
        "the checksum is that of RFC 3720 appendix B.4",
        arguments: [
            ([UInt8](repeating: 0, count: 32), 0x8a91_36aa), ([UInt8](repeating: 0xff, count: 32), 0x62a8_ab43),
            (Array(0..<32), 0x46dd_794e), (Array((0..<32).reversed()), 0x113f_db5c),
            (Array("123456789".utf8), 0xe306_9283),
        ] as [([UInt8], UInt32)])
    func vectors(bytes: [UInt8], checksum: UInt32) {
        let computed = CRC32C.of(bytes.span, takingAsZero: 0..<0)
        #expect(computed == checksum)
    }

    @Test("the checksum's own bytes count as zero")
    func zeros() {
        let bytes = [UInt8](repeating: 0, count: 32)
        var marked = bytes
        for place in 10..<14 { marked[place] = 0xaa }
        let computed = CRC32C.of(marked.span, takingAsZero: 10..<14)
        #expect(computed == 0x8a91_36aa)
    }
}
