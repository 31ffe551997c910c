/// A pool of blocks of one size for the buffers of one event loop.
///
/// Every buffer of the data path takes its block here when bytes arrive, and returns it when it is empty. So an idle
/// connection holds no block, and a busy one never more than its fixed number. The memory that a peer can occupy is
/// bounded by construction.
///
/// Not `Sendable`: a pool belongs to its loop.
public final class BufferPool {
    /// The number of bytes in every block.
    public let blockSize: Int

    /// The list of unused blocks: each holds, in its first bytes, the address of the next.
    private var firstIdle: UnsafeMutablePointer<UInt8>?
    private var idleCount = 0
    private let idleLimit: Int
    /// The minimum number of unused blocks since `releaseUnneeded`.
    private var fewestIdle = 0
    /// The account of the blocks, the unused ones included.
    public let meter: MemoryMeter
    /// The blocks for short waiting responses.
    private(set) lazy var small = BufferPool(blockSize: Self.smallBlockSize, meter: meter)
    static let smallBlockSize = 1024
    /// The pieces for objects of a library.
    public private(set) lazy var pieces = PiecePool()
    /// The memory in which the sessions of a library make frames.
    public private(set) lazy var frames = FrameBlock()
    /// The number of blocks in use.
    public var outstanding: Int { handedOut }
    private var handedOut = 0

    /// The number of blocks kept for reuse.
    public var unused: Int { idleCount }

    /// Creates an empty pool.
    ///
    /// - Parameters:
    ///   - blockSize: the bytes in a block. The default holds a whole TLS record (16 KiB) behind a full message head.
    ///   - idleLimit: the maximum number of unused blocks. Further ones return to the allocator.
    ///   - meter: the meter of the pool's loop.
    public init(blockSize: Int = 32 * 1024, idleLimit: Int = 256, meter: MemoryMeter = MemoryMeter()) {
        precondition(blockSize >= 1024, "a block holds at least a small message head")
        self.blockSize = blockSize
        self.idleLimit = idleLimit
        self.meter = meter
    }

    deinit { release(idleCount) }

    /// Returns the blocks to the allocator that were unused throughout the time since the last call, and all unused pieces.
    public func releaseUnneeded() {
        release(fewestIdle)
        fewestIdle = idleCount
        pieces.releaseAll()
    }

    /// Returns all unused blocks and pieces to the allocator.
    public func releaseAll() {
        release(idleCount)
        fewestIdle = 0
        pieces.releaseAll()
    }

    private func release(_ count: Int) {
        for _ in 0..<count {
            guard let block = firstIdle else { return }
            firstIdle = Self.link(of: block).pointee
            idleCount -= 1
            deallocate(block)
        }
    }

    func take() -> UnsafeMutablePointer<UInt8> {
        handedOut += 1
        guard let block = firstIdle else { return allocate() }
        firstIdle = Self.link(of: block).pointee
        idleCount -= 1
        fewestIdle = min(fewestIdle, idleCount)
        return block
    }

    func give(_ block: UnsafeMutablePointer<UInt8>) {
        handedOut -= 1
        guard idleCount < idleLimit else { return deallocate(block) }
        Self.link(of: block).initialize(to: firstIdle)
        firstIdle = block
        idleCount += 1
    }

    private func allocate() -> UnsafeMutablePointer<UInt8> {
        meter.add(blockSize)
        // Aligned for the link.
        return UnsafeMutableRawPointer.allocate(byteCount: blockSize, alignment: 16)
            .bindMemory(to: UInt8.self, capacity: blockSize)
    }

    private func deallocate(_ block: UnsafeMutablePointer<UInt8>) {
        block.deallocate()
        meter.add(-blockSize)
    }

    /// Returns the link in an unused block. Its bytes have no other user; blocks are aligned and larger than a pointer.
    private static func link(of block: UnsafeMutablePointer<UInt8>) -> UnsafeMutablePointer<
        UnsafeMutablePointer<UInt8>?
    > {
        UnsafeMutableRawPointer(block).assumingMemoryBound(to: UnsafeMutablePointer<UInt8>?.self)
    }
}
