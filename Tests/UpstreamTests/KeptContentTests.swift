import Bytes
import Testing

@testable import Upstream

@Suite("Content that is kept for another server")
struct KeptContentTests {
    private let pool = BufferPool(blockSize: 1024)

    private static func replayed(_ kept: borrowing KeptContent) -> [UInt8] {
        var bytes: [UInt8] = []
        kept.replay { span in for index in span.indices { bytes.append(span[index]) } }
        return bytes
    }

    @Test("comes out as it went in, as often as it is asked for")
    func whole() {
        var kept = KeptContent()
        let part = Array("ontent".utf8)
        kept.keep(UInt8(ascii: "c"), part.span, in: pool)
        kept.keep(nil, part.span, in: pool)
        for _ in 0..<2 {
            let bytes = Self.replayed(kept)
            #expect(bytes == Array("contentontent".utf8))
        }
        let isWhole = kept.isWhole
        #expect(isWhole)
    }

    @Test("beyond a block is not kept at all, and never half of it", arguments: [1024, 1025])
    func tooMuch(count: Int) {
        var kept = KeptContent()
        let content = [UInt8](repeating: 1, count: count)
        kept.keep(nil, content.span, in: pool)
        let isWhole = kept.isWhole
        #expect(isWhole == (count <= 1024))
        let bytes = Self.replayed(kept)
        #expect(bytes.count == (count <= 1024 ? count : 0))
        kept.keep(2, content.span, in: pool)
        let isStillWhole = kept.isWhole
        let rest = Self.replayed(kept)
        #expect(!isStillWhole && rest.isEmpty && pool.outstanding == 0)
    }

    @Test("that was dropped is gone until the next request, with its block")
    func dropped() {
        var kept = KeptContent()
        let content: [UInt8] = [1, 2, 3]
        kept.keep(nil, content.span, in: pool)
        kept.drop()
        kept.keep(nil, content.span, in: pool)
        let isWhole = kept.isWhole
        #expect(!isWhole && pool.outstanding == 0)
        kept.reset()
        kept.keep(nil, content.span, in: pool)
        let isWholeAgain = kept.isWhole
        let bytes = Self.replayed(kept)
        #expect(isWholeAgain && bytes == content)
    }
}
