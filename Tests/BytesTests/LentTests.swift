import Bytes
import Testing

@Suite("A value that is lent")
struct LentTests {
    private struct Refused: Error {}

    /// As connections keep their buffers.
    private final class Owner {
        var buffer: ByteBuffer {
            _read {
                var loan = keptBuffer.lend()
                defer { keptBuffer.end(&loan) }
                yield loan.value
            }
            _modify {
                var loan = keptBuffer.lend()
                defer { keptBuffer.end(&loan) }
                yield &loan.value
            }
        }
        private var keptBuffer: Lent<ByteBuffer>

        init(_ pool: BufferPool) { keptBuffer = Lent(ByteBuffer(pool: pool)) }
    }

    private let pool = BufferPool(blockSize: 1024)

    private func append(_ text: String, to buffer: inout ByteBuffer, thenThrow: Bool) throws(Refused) {
        buffer.append(text)
        if thenThrow { throw Refused() }
    }

    private func count(_ bytes: Span<UInt8>, thenThrow: Bool) throws(Refused) -> Int {
        if thenThrow { throw Refused() }
        return bytes.count
    }

    @Test("comes back as the work on it has left it")
    func back() throws {
        let owner = Owner(pool)
        owner.buffer.append("one")
        try append(", two", to: &owner.buffer, thenThrow: false)
        let counted = try count(owner.buffer.readable, thenThrow: false)
        let bytes = owner.buffer.copy()
        #expect(counted == 8)
        #expect(bytes == Array("one, two".utf8))
    }

    @Test("comes back from work that ends with an error")
    func error() {
        let owner = Owner(pool)
        #expect(throws: Refused.self) { try append("one", to: &owner.buffer, thenThrow: true) }
        #expect(throws: Refused.self) { _ = try count(owner.buffer.readable, thenThrow: true) }
        let bytes = owner.buffer.copy()
        #expect(bytes == Array("one".utf8))
    }

    @Test("changes places with another that is lent")
    func exchange() {
        let (left, right) = (Owner(pool), Owner(pool))
        left.buffer.append("left")
        swap(&left.buffer, &right.buffer)
        let (taken, given) = (left.buffer.count, right.buffer.copy())
        #expect(taken == 0)
        #expect(given == Array("left".utf8))
    }

    @Test("goes with its owner, and gives back what it held")
    func end() {
        var owner: Owner? = Owner(pool)
        owner?.buffer.append("held")
        #expect(pool.outstanding == 1)
        owner = nil
        #expect(pool.outstanding == 0)
    }
}
