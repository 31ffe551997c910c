import Bytes
import HTTP
import Upstream

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
