import Bytes
import Cryptography
import HTTP
import Registry
import RequestProof
import Testing
import Upstream

@testable import Gateway

@Suite("Content with a digest to verify")
struct ProvenContentTests {
    private let pool = BufferPool(blockSize: 1024)
    private let library: LibraryContext
    private let device: DeviceID
    private let content = (0..<5000).map { UInt8(truncatingIfNeeded: $0) }

    init() throws {
        library = try LibraryContext()
        device = try #require(DeviceID(1))
    }

    private func digests(_ content: [UInt8], sha512: [UInt8]? = nil) throws -> ContentDigests {
        let digest = try library.sha256(of: content.span)
        var field = try #require(fieldValue(.sha256, digest.bytes))
        if let sha512 {
            let digest = try library.sha512(of: sha512.span)
            field += Array(", ".utf8) + (try #require(fieldValue(.sha512, digest.bytes)))
        }
        return try ContentDigests(expecting: try ContentDigest(parsing: field.span), library)
    }

    private func fieldValue(_ algorithm: ContentDigest.Algorithm, _ digest: [UInt8]) -> [UInt8]? {
        ContentDigest.fieldValue(algorithm, digest.span)
    }

    private func collected(_ digests: consuming ContentDigests) -> ProvenContent {
        ProvenContent(
            digests, CollectedContent(from: device, pool: pool, budget: ContentBudget(limit: 10_000, share: 10_000)))
    }

    @Test("held content is forwarded only after verification, with its length")
    func collects() throws {
        let proven = collected(try digests(content, sha512: content))
        let isTaken = try proven.collect(content.span)
        #expect(isTaken)
        let sink = TestSink(.length(5000))
        let isEarly = proven.release(into: sink)
        sink.drain()
        #expect(!isEarly && sink.bytes.isEmpty)
        let isMatch = try proven.verify()
        #expect(isMatch && proven.framing(replacing: .chunked) == .length(5000))
        var isComplete = false
        while !isComplete {
            isComplete = proven.release(into: sink)
            sink.drain()
        }
        #expect(sink.bytes == content)
    }

    @Test("streamed content is forwarded before verification, except its last byte", arguments: [1, 999, 5000])
    func streams(piece: Int) throws {
        let proven = ProvenContent(try digests(content), StreamedContent(.length(5000)))
        #expect(proven.framing(replacing: .length(5000)) == .length(5000))
        let sink = TestSink(.length(5000))
        for start in stride(from: 0, to: content.count, by: piece) {
            var part = content[start..<min(start + piece, content.count)]
            while !part.isEmpty {
                let left = Array(part)
                let taken = try proven.pass(left.span, into: sink)
                part = part.dropFirst(taken)
                sink.drain()
            }
        }
        #expect(sink.bytes == Array(content.dropLast()))
        let isEarly = proven.release(into: sink)
        sink.drain()
        #expect(!isEarly && sink.bytes.count == 4999)
        let isMatch = try proven.verify()
        let isComplete = proven.release(into: sink)
        sink.drain()
        #expect(isMatch && isComplete && sink.bytes == content)
    }

    @Test("one wrong digest of two is enough, and withheld bytes stay withheld")
    func mismatch() throws {
        let content = Array("content".utf8)
        let other = Array("other".utf8)
        for (first, second) in [(other, nil), (content, other), (other, content)] {
            let held = collected(try digests(first, sha512: second))
            _ = try held.collect(content.span)
            let streamed = ProvenContent(try digests(first, sha512: second), StreamedContent(.chunked))
            let sink = TestSink(.chunked)
            _ = try streamed.pass(content.span, into: sink)
            sink.drain()
            let before = sink.bytes
            let isMatch = try held.verify()
            let isStreamMatch = try streamed.verify()
            let isReleased = held.release(into: sink)
            let isStreamReleased = streamed.release(into: sink)
            sink.drain()
            #expect(!isMatch && !isStreamMatch && !isReleased && !isStreamReleased && sink.bytes == before)
        }
    }
}

@Suite("Held content")
struct CollectedContentTests {
    private let pool = BufferPool(blockSize: 1024)
    private let device: DeviceID

    init() throws {
        device = try #require(DeviceID(1))
    }

    @Test("content comes out unchanged, and forwarded content is no longer held")
    func comesOut() {
        let content = (0..<5000).map { UInt8(truncatingIfNeeded: $0) }
        for piece in [1, 999, 5000] {
            let budget = ContentBudget(limit: 5000, share: 5000)
            var collected = CollectedContent(from: device, pool: pool, budget: budget)
            for start in stride(from: 0, to: content.count, by: piece) {
                let part = Array(content[start..<min(start + piece, content.count)])
                let isTaken = collected.append(part.span)
                #expect(isTaken)
            }
            let sink = TestSink(.length(5000))
            var isComplete = false
            while !isComplete {
                isComplete = collected.release(into: sink)
                sink.drain()
            }
            #expect(sink.bytes == content)
            let isFree = budget.take(5000, for: device)
            #expect(isFree)
        }
    }

    @Test("a worker holds no more than its budget, and content returns its part")
    func budget() {
        let budget = ContentBudget(limit: 10, share: 10)
        do {
            var first = CollectedContent(from: device, pool: pool, budget: budget)
            let six = [UInt8](repeating: 0, count: 6)
            let isTaken = first.append(six.span)
            #expect(isTaken)
            var second = CollectedContent(from: device, pool: pool, budget: budget)
            let isRefused = !second.append(six.span)
            #expect(isRefused && second.count == 0)
        }
        let isFree = budget.take(10, for: device)
        #expect(isFree)
        #expect(pool.outstanding == 0)
    }
}

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

@Suite("The content budget of a worker")
struct ContentBudgetTests {
    @Test("no device holds more than its share, and a device without content is not stored")
    func share() throws {
        let device = try #require(DeviceID(1))
        let other = try #require(DeviceID(2))
        let budget = ContentBudget(limit: 10, share: 4)
        #expect(budget.take(4, for: device) && !budget.take(1, for: device))
        #expect(budget.take(4, for: other) && budget.holders == 2)
        budget.give(1, of: device)
        #expect(budget.take(1, for: device) && !budget.take(1, for: device))
        budget.give(4, of: device)
        budget.give(4, of: other)
        #expect(budget.holders == 0 && budget.take(0, for: device) && budget.holders == 0)
    }
}

/// What an upstream gets, framed as HTTP/1.1 does, with `room` for it each time.
final class TestSink: ContentSink {
    private var output: ByteBuffer
    private let isChunked: Bool
    private let taken: Int
    private(set) var bytes: [UInt8] = []

    init(_ framing: ContentFraming, room: Int = 1024) {
        isChunked = framing == .chunked
        taken = 1024 - room
        output = ByteBuffer(pool: BufferPool(blockSize: 1024))
        occupy()
    }

    private func occupy() {
        let occupied = [UInt8](repeating: 0, count: taken)
        output.append(occupied)
    }

    /// What was written leaves.
    func drain() {
        bytes += output.copy().dropFirst(taken)
        output.removeAll()
        occupy()
    }

    var contentRoom: Int { isChunked ? max(0, output.chunkRoom - ByteBuffer.lastChunkLength) : output.room }

    func write(_ first: UInt8?, _ content: Span<UInt8>) {
        precondition(content.count + (first == nil ? 0 : 1) <= contentRoom, "more than there is room for")
        guard !isChunked else { return output.appendChunk(first, content) }
        if let first { output.append(first) }
        output.append(content)
    }

    func writeEnd() -> Bool { !isChunked || output.appendLastChunk() }
}
