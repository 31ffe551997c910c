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

    /// The unused blocks: each holds, in its first bytes, the address of the next.
    private var firstIdle: UnsafeMutablePointer<UInt8>?
    private var idleCount = 0
    private let idleLimit: Int
    /// The fewest unused blocks since `releaseUnneeded`.
    private var fewestIdle = 0
    /// Accounts for the blocks, the unused ones included.
    public let meter: MemoryMeter
    /// Blocks for short answers that wait.
    private(set) lazy var small = BufferPool(blockSize: Self.smallBlockSize, meter: meter)
    static let smallBlockSize = 1024
    /// Blocks handed out and not yet given back.
    public var outstanding: Int { handedOut }
    private var handedOut = 0

    /// Blocks kept for reuse.
    public var unused: Int { idleCount }

    /// - Parameters:
    ///   - blockSize: bytes in a block. The default holds a whole TLS record (16 KiB) behind a full message head.
    ///   - idleLimit: how many unused blocks are kept; further ones go back to the allocator.
    ///   - meter: of the pool's loop.
    public init(blockSize: Int = 32 * 1024, idleLimit: Int = 256, meter: MemoryMeter = MemoryMeter()) {
        precondition(blockSize >= 1024, "a block holds at least a small message head")
        self.blockSize = blockSize
        self.idleLimit = idleLimit
        self.meter = meter
    }

    deinit { release(idleCount) }

    /// Returns the unused blocks that nobody has needed since the last call to the allocator.
    public func releaseUnneeded() {
        release(fewestIdle)
        fewestIdle = idleCount
    }

    /// Returns all unused blocks to the allocator.
    public func releaseAll() {
        release(idleCount)
        fewestIdle = 0
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

    /// The link in an unused block. Its bytes belong to nobody else then; blocks are aligned and larger than a pointer.
    private static func link(of block: UnsafeMutablePointer<UInt8>) -> UnsafeMutablePointer<
        UnsafeMutablePointer<UInt8>?
    > {
        UnsafeMutableRawPointer(block).assumingMemoryBound(to: UnsafeMutablePointer<UInt8>?.self)
    }
}
