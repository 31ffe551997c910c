import Bytes
import Testing

@testable import Upstream

@Suite("Content retained for a retry")
struct KeptContentTests {
    private let pool = BufferPool(blockSize: 1024)

    private static func replayed(_ kept: borrowing RetainedContent) -> [UInt8] {
        var bytes: [UInt8] = []
        kept.replay { span in for index in span.indices { bytes.append(span[index]) } }
        return bytes
    }

    @Test("retained content is replayed unchanged, as often as needed")
    func whole() {
        var kept = RetainedContent()
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

    @Test("content larger than a block is not retained, not even in part", arguments: [1024, 1025])
    func tooMuch(count: Int) {
        var kept = RetainedContent()
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

    @Test("dropped content stays dropped until the next request, with its block")
    func dropped() {
        var kept = RetainedContent()
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
