import Bytes
import Testing

@Suite("A value borrowed from its owner")
struct LentTests {
    private struct Refused: Error {}

    /// An owner of a buffer like a connection.
    private final class Owner {
        var buffer: ByteBuffer {
            _read {
                var borrowed = keptBuffer.borrow()
                defer { keptBuffer.end(&borrowed) }
                yield borrowed.value
            }
            _modify {
                var borrowed = keptBuffer.borrow()
                defer { keptBuffer.end(&borrowed) }
                yield &borrowed.value
            }
        }
        private var keptBuffer: Borrowable<ByteBuffer>

        init(_ pool: BufferPool) { keptBuffer = Borrowable(ByteBuffer(pool: pool)) }
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

    @Test("a borrowed value returns with its changes")
    func back() throws {
        let owner = Owner(pool)
        owner.buffer.append("one")
        try append(", two", to: &owner.buffer, thenThrow: false)
        let counted = try count(owner.buffer.readable, thenThrow: false)
        let bytes = owner.buffer.copy()
        #expect(counted == 8)
        #expect(bytes == Array("one, two".utf8))
    }

    @Test("a borrowed value returns when the work on it throws")
    func error() {
        let owner = Owner(pool)
        #expect(throws: Refused.self) { try append("one", to: &owner.buffer, thenThrow: true) }
        #expect(throws: Refused.self) { _ = try count(owner.buffer.readable, thenThrow: true) }
        let bytes = owner.buffer.copy()
        #expect(bytes == Array("one".utf8))
    }

    @Test("two borrowed values can be swapped")
    func exchange() {
        let (left, right) = (Owner(pool), Owner(pool))
        left.buffer.append("left")
        swap(&left.buffer, &right.buffer)
        let (taken, given) = (left.buffer.count, right.buffer.copy())
        #expect(taken == 0)
        #expect(given == Array("left".utf8))
    }

    @Test("a value is freed with its owner and returns its block")
    func end() {
        var owner: Owner? = Owner(pool)
        owner?.buffer.append("held")
        #expect(pool.outstanding == 1)
        owner = nil
        #expect(pool.outstanding == 0)
    }
}
