import Glibc

/// A queue of bytes over as many pooled blocks as necessary: content that waits for its forwarding.
///
/// It has no limit of its own: the caller that appends knows the maximum length.
///
/// Raw memory, as in `ByteBuffer`. The invariant: `blocks[first...]` are blocks of `pool.blockSize` bytes owned by this
/// chain alone. The bytes lie in them one after the other, from `start` in the first of them on. There are `count`
/// bytes, all of them initialised.
public struct BufferChain: ~Copyable {
    private let pool: BufferPool
    private var blocks: [UnsafeMutablePointer<UInt8>] = []
    /// The index of the first block not yet consumed.
    private var first = 0
    /// The offset of the first byte in that block.
    private var start = 0
    /// The number of bytes in the chain.
    public private(set) var count = 0

    public init(pool: BufferPool) {
        self.pool = pool
    }

    deinit {
        for index in first..<blocks.count { pool.give(blocks[index]) }
    }

    public var isEmpty: Bool { count == 0 }
    /// The bytes of memory that the chain takes from its pool.
    public var footprint: Int { (blocks.count - first) * pool.blockSize }

    public mutating func append(_ bytes: Span<UInt8>) {
        bytes.withUnsafeBufferPointer { source in
            var taken = 0
            while taken < source.count, let from = source.baseAddress {
                let end = start + count
                let block = first + end / pool.blockSize
                if block == blocks.count { blocks.append(pool.take()) }
                let offset = end % pool.blockSize
                let piece = min(source.count - taken, pool.blockSize - offset)
                (blocks[block] + offset).update(from: from + taken, count: piece)
                taken += piece
                count += piece
            }
        }
    }

    /// Moves as many bytes as fit from the front of the chain to the end of `buffer`.
    public mutating func move(into buffer: inout ByteBuffer) {
        while count > 0, buffer.room > 0 {
            let piece = min(count, pool.blockSize - start)
            let moved = buffer.appendPrefix(of: UnsafeBufferPointer(start: blocks[first] + start, count: piece))
            consume(moved)
        }
    }

    /// The contiguous bytes at the front. Empty only if the chain is empty.
    public var front: Span<UInt8> {
        @_lifetime(borrow self)
        get {
            let bytes = UnsafeBufferPointer(
                start: isEmpty ? nil : UnsafePointer(blocks[first]) + start, count: frontCount)
            return bound(bytes.span, borrowing: self)
        }
    }

    /// The number of bytes in `front`.
    public var frontCount: Int { min(count, pool.blockSize - start) }

    /// Drops `dropped` bytes of `front`.
    public mutating func consume(_ dropped: Int) {
        precondition(dropped >= 0 && dropped <= frontCount, "consumed more than was contiguous")
        guard dropped > 0 else { return }
        count -= dropped
        start += dropped
        if start == pool.blockSize || count == 0 { releaseFirst() }
    }

    public mutating func removeAll() {
        for index in first..<blocks.count { pool.give(blocks[index]) }
        // The capacity is kept: a connection that sends content once does so again.
        blocks.removeAll(keepingCapacity: true)
        first = 0
        start = 0
        count = 0
    }

    private mutating func releaseFirst() {
        pool.give(blocks[first])
        first += 1
        start = 0
        if first == blocks.count {
            blocks.removeAll(keepingCapacity: true)
            first = 0
        }
    }
}
