import Bytes
import Testing

@Suite("A chain of buffers")
struct BufferChainTests {
    /// Small blocks, so that little content takes several.
    private let pool = BufferPool(blockSize: 1024, idleLimit: 2)

    private func drained(_ chain: inout BufferChain, by size: Int) -> [UInt8] {
        var bytes: [UInt8] = []
        let narrow = BufferPool(blockSize: size)
        while !chain.isEmpty {
            var buffer = ByteBuffer(pool: narrow)
            chain.move(into: &buffer)
            bytes += buffer.copy()
        }
        return bytes
    }

    @Test("bytes come out in order, whatever the pieces", arguments: [0, 1, 1023, 1024, 1025, 5000])
    func order(count: Int) {
        for piece in [1, 7, 1024, 3000] {
            let content = (0..<count).map { UInt8(truncatingIfNeeded: $0 * 31) }
            var chain = BufferChain(pool: pool)
            for start in stride(from: 0, to: count, by: piece) {
                let part = Array(content[start..<min(start + piece, count)])
                chain.append(part.span)
            }
            #expect(chain.count == count)
            #expect(drained(&chain, by: 1500) == content)
            #expect(pool.outstanding == 0)
        }
    }

    @Test("the front shows contiguous bytes, and consumed bytes are dropped", arguments: [1, 600, 1024])
    func front(most: Int) {
        let content = (0..<3000).map { UInt8(truncatingIfNeeded: $0 * 31) }
        var chain = BufferChain(pool: pool)
        let nothing = chain.front.count
        #expect(nothing == 0)
        chain.append(content.span)
        var seen: [UInt8] = []
        while !chain.isEmpty {
            let count = min(most, chain.front.count)
            for index in 0..<count { seen.append(chain.front[index]) }
            chain.consume(count)
        }
        #expect(seen == content)
        #expect(pool.outstanding == 0)
    }

    @Test("what fits is moved out, and more can be appended in between")
    func interleaved() {
        var chain = BufferChain(pool: pool)
        var expected: [UInt8] = []
        var received: [UInt8] = []
        for round in 0..<40 {
            let part = [UInt8](repeating: UInt8(round), count: 333)
            expected += part
            chain.append(part.span)
            var buffer = ByteBuffer(pool: pool)
            let taken = [UInt8](repeating: 0, count: 900)
            buffer.append(taken.span)
            chain.move(into: &buffer)
            received += buffer.copy().dropFirst(900)
        }
        received += drained(&chain, by: 1024)
        #expect(received == expected)
    }

    @Test("blocks are returned when the chain is emptied or dropped")
    func blocks() {
        do {
            var chain = BufferChain(pool: pool)
            let content = [UInt8](repeating: 1, count: 4000)
            chain.append(content.span)
            #expect(pool.outstanding == 4)
            chain.removeAll()
            #expect(pool.outstanding == 0 && chain.isEmpty)
            chain.append(content.span)
            #expect(pool.outstanding == 4)
        }
        #expect(pool.outstanding == 0)
    }
}
