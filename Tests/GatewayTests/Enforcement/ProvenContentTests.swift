import Bytes
import Cryptography
import HTTP
import Registry
import RequestProof
import Testing

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
        var proven = collected(try digests(content, sha512: content))
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
        var proven = ProvenContent(try digests(content), StreamedContent(.length(5000)))
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
            var held = collected(try digests(first, sha512: second))
            _ = try held.collect(content.span)
            var streamed = ProvenContent(try digests(first, sha512: second), StreamedContent(.chunked))
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
