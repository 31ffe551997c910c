import Bytes
import HTTP
import Testing

@testable import Gateway

@Suite("Streamed content")
struct StreamedContentTests {
    private static let content = Array("content".utf8)

    /// All ways to cut the content into pieces.
    private static let splits: [[[UInt8]]] = (0..<(1 << (content.count - 1))).map { cuts in
        content.indices.reduce(into: [[]]) { pieces, index in
            pieces[pieces.count - 1].append(content[index])
            if index < content.count - 1, cuts & (1 << index) != 0 { pieces.append([]) }
        }
    }

    private static func offer<Result>(_ sink: TestSink, _ body: (TestSink) -> Result) -> Result {
        defer { sink.drain() }
        return body(sink)
    }

    private static func decode(_ bytes: [UInt8], _ framing: ContentFraming) throws -> (content: [UInt8], isEnded: Bool)
    {
        var decoder = ContentDecoder(framing, extensions: .refused)
        var rest = bytes[...]
        var content: [UInt8] = []
        while true {
            let window = Array(rest)
            switch try decoder.next(window.span) {
            case .needMore: return (content, false)
            case .end: return (content, rest.isEmpty)
            case .framing(let count): rest = rest.dropFirst(count)
            case .content(let count):
                content += rest.prefix(count)
                rest = rest.dropFirst(count)
                decoder.consumed(count)
            }
        }
    }

    @Test(
        "all but the last byte is forwarded at once, and the last one after its release",
        arguments: [ContentFraming.length(7), .chunked], [20, 21, 24, 1024])
    func splits(framing: ContentFraming, room: Int) throws {
        for pieces in Self.splits {
            var streamed = StreamedContent(framing)
            let upstream = TestSink(framing, room: room)
            for piece in pieces {
                var left = piece[...]
                var offers = 0
                while !left.isEmpty {
                    let part = Array(left)
                    let taken = Self.offer(upstream) { output in streamed.pass(part.span, into: output) }
                    left = left.dropFirst(taken)
                    offers += 1
                    try #require(offers < 100, "\(pieces): it stands still")
                }
                let (content, isEnded) = try Self.decode(upstream.bytes, framing)
                #expect(!isEnded && content.count < 7, "\(pieces)")
            }
            let (before, _) = try Self.decode(upstream.bytes, framing)
            #expect(before == Array(Self.content.dropLast()), "\(pieces)")
            let isReleased = Self.offer(upstream) { output in streamed.release(into: output) }
            #expect(isReleased)
            let (content, isEnded) = try Self.decode(upstream.bytes, framing)
            #expect(isEnded && content == Self.content, "\(pieces)")
            // An upstream that asks for more gets nothing twice.
            let count = upstream.bytes.count
            let isStillReleased = Self.offer(upstream) { output in streamed.release(into: output) }
            #expect(isStillReleased && upstream.bytes.count == count)
        }
    }

    @Test("content of known length withholds only its last byte, whatever the pieces")
    func knownLength() {
        var streamed = StreamedContent(.length(7))
        let upstream = TestSink(.length(7), room: 100)
        let piece = Array(Self.content.prefix(3))
        let taken = Self.offer(upstream) { output in streamed.pass(piece.span, into: output) }
        #expect(taken == 3 && upstream.bytes == piece)
    }

    @Test("nothing is taken where there is no room", arguments: [ContentFraming.length(7), .chunked])
    func noRoom(framing: ContentFraming) {
        var streamed = StreamedContent(framing)
        let upstream = TestSink(framing, room: 0)
        let content = Self.content
        for _ in 0..<3 {
            let taken = Self.offer(upstream) { output in streamed.pass(content.span, into: output) }
            #expect(taken == 0 && upstream.bytes.isEmpty)
        }
    }

    @Test("the end waits until there is room for all of it", arguments: [ContentFraming.length(1), .chunked])
    func endWaits(framing: ContentFraming) throws {
        var streamed = StreamedContent(framing)
        let last: [UInt8] = [0x78]
        let full = TestSink(framing, room: 0)
        let taken = Self.offer(full) { output in streamed.pass(last.span, into: output) }
        #expect(taken == 1)
        for _ in 0..<3 {
            let isReleased = Self.offer(full) { output in streamed.release(into: output) }
            #expect(!isReleased && full.bytes.isEmpty)
        }
        let upstream = TestSink(framing, room: 18)
        let isReleased = Self.offer(upstream) { output in streamed.release(into: output) }
        let (content, isEnded) = try Self.decode(upstream.bytes, framing)
        #expect(isReleased && isEnded && content == last)
    }

    @Test("chunked content without bytes ends with the last chunk alone")
    func emptyChunks() {
        var streamed = StreamedContent(.chunked)
        let upstream = TestSink(.chunked, room: 18)
        let isReleased = Self.offer(upstream) { output in streamed.release(into: output) }
        #expect(isReleased && upstream.bytes == Array("0\r\n\r\n".utf8))
    }
}
