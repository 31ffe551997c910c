/// Blocks of one size, kept for reuse by the buffers of one event loop.
///
/// Every buffer of the data path takes its block here when bytes arrive and gives it back when it is empty, so an idle
/// connection holds none and a busy one never more than its fixed number of blocks: the memory a peer can make the
/// process hold is bounded by construction.
///
/// Not `Sendable`: a pool belongs to the loop that made it.
public final class BufferPool {
    /// Bytes in every block.
    public let blockSize: Int

    @usableFromInline var idle: [UnsafeMutablePointer<UInt8>] = []
    private let idleLimit: Int
    /// Blocks handed out and not yet given back.
    public private(set) var outstanding = 0

    /// - Parameters:
    ///   - blockSize: bytes in a block. The default holds a whole TLS record (16 KiB) behind a full message head.
    ///   - idleLimit: how many unused blocks are kept; further ones go back to the allocator.
    public init(blockSize: Int = 32 * 1024, idleLimit: Int = 256) {
        precondition(blockSize >= 1024, "a block holds at least a small message head")
        self.blockSize = blockSize
        self.idleLimit = idleLimit
    }

    deinit {
        for block in idle { block.deallocate() }
    }

    func take() -> UnsafeMutablePointer<UInt8> {
        outstanding += 1
        return idle.popLast() ?? .allocate(capacity: blockSize)
    }

    func give(_ block: UnsafeMutablePointer<UInt8>) {
        outstanding -= 1
        if idle.count < idleLimit { idle.append(block) } else { block.deallocate() }
    }
}
