internal import Bytes
internal import CLinux
internal import CNghttp2
internal import Glibc

/// The accounted memory of one nghttp2 session.
///
/// It comes from the allocator, through the loop's pool of pieces: nghttp2 allocates several for each stream. The
/// exception is the block of 16 KiB in which nghttp2 makes frames, and which it keeps: the sessions of a loop share one.
///
/// C and raw memory, each use marked `unsafe`. The invariant: nghttp2 has the block of `frames` at most once, and uses
/// it within `FrameBlock.use` alone. nghttp2 gets a pointer to this object, which its owner keeps longer than the
/// session.
@safe final class FrameMemory {
    private let meter: MemoryMeter
    private let pieces: PiecePool
    /// The bytes of the session.
    private(set) var used = 0
    /// The bytes that the meter knows of. It learns of larger changes only: most allocations live for a request.
    private var reported = 0
    private static let step = 4096
    /// Nil if the session has a block of its own.
    private let frames: FrameBlock?
    private var hasBlock = false

    /// - Parameter frames: the block that the session shares. Nil for a client's, which has a frame in its block from the
    ///   beginning.
    init(_ meter: MemoryMeter, _ pieces: PiecePool, _ frames: FrameBlock?) {
        self.meter = meter
        self.pieces = pieces
        self.frames = frames
    }

    deinit {
        // nghttp2 frees everything when its session is deleted.
        precondition(!hasBlock, "the session is gone before its memory")
        meter.add(-reported)
    }

    /// Runs `body`, which makes frames and copies them.
    func makeFrames(_ body: () -> Void) {
        guard let frames else { return body() }
        frames.use(body)
    }

    /// The allocation functions, which nghttp2 copies and then calls.
    var functions: nghttp2_mem {
        unsafe nghttp2_mem(
            mem_user_data: Unmanaged.passUnretained(self).toOpaque(), malloc: allocate, free: release,
            calloc: allocateZeroed, realloc: resize)
    }

    private func count(_ change: Int) {
        used += change
        guard abs(used - reported) >= Self.step else { return }
        meter.add(used - reported)
        reported = used
    }

    /// Counts allocated memory.
    ///
    /// - Returns: the same pointer.
    private func counted(_ memory: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
        count(unsafe Int(ag_malloc_usable_size(memory)))
        return unsafe memory
    }

    fileprivate func takeZeroed(_ number: Int, _ size: Int) -> UnsafeMutableRawPointer? {
        unsafe counted(Glibc.calloc(number, size))
    }

    /// Allocates memory.
    ///
    /// - Returns: nil if there is none, as `malloc`.
    fileprivate func take(_ size: Int) -> UnsafeMutableRawPointer? {
        var usable = 0
        if let piece = unsafe pieces.take(size, usable: &usable) {
            count(usable)
            return unsafe piece
        }
        if size > 16 * 1024, size <= FrameBlock.size, !hasBlock, let frames {
            hasBlock = true
            return unsafe frames.bytes
        }
        return unsafe counted(Glibc.malloc(size))
    }

    fileprivate func give(_ memory: UnsafeMutableRawPointer?) {
        guard let memory = unsafe memory else { return }
        guard unsafe !isBlock(memory) else { return hasBlock = false }
        let size = unsafe Int(ag_malloc_usable_size(memory))
        count(-size)
        if unsafe !pieces.keep(memory, size) { unsafe Glibc.free(memory) }
    }

    fileprivate func move(_ memory: UnsafeMutableRawPointer?, to size: Int) -> UnsafeMutableRawPointer? {
        guard let memory = unsafe memory else { return unsafe take(size) }
        guard unsafe isBlock(memory) else {
            let before = unsafe Int(ag_malloc_usable_size(memory))
            guard let moved = unsafe Glibc.realloc(memory, size) else { return nil }
            count(unsafe Int(ag_malloc_usable_size(moved)) - before)
            return unsafe moved
        }
        guard size > FrameBlock.size else { return unsafe memory }
        guard let larger = unsafe counted(Glibc.malloc(size)) else { return nil }
        unsafe larger.copyMemory(from: memory, byteCount: FrameBlock.size)
        unsafe give(memory)
        return unsafe larger
    }

    private func isBlock(_ memory: UnsafeMutableRawPointer?) -> Bool {
        unsafe hasBlock && memory == frames?.bytes
    }
}

/// Runs `body` with the memory of a session, which is not retained: there are calls for each field.
@inline(__always)
private func with<Result>(_ user: UnsafeMutableRawPointer?, _ body: (FrameMemory) -> Result) -> Result {
    guard let user = unsafe user else { preconditionFailure("nghttp2 was given its memory") }
    return unsafe Unmanaged<FrameMemory>.fromOpaque(user)._withUnsafeGuaranteedRef { body($0) }
}

private func allocate(_ size: Int, _ user: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
    unsafe with(user) { unsafe $0.take(size) }
}

private func allocateZeroed(
    _ number: Int, _ size: Int, _ user: UnsafeMutableRawPointer?
) -> UnsafeMutableRawPointer? {
    unsafe with(user) { unsafe $0.takeZeroed(number, size) }
}

private func release(_ memory: UnsafeMutableRawPointer?, _ user: UnsafeMutableRawPointer?) {
    unsafe with(user) { unsafe $0.give(memory) }
}

private func resize(
    _ memory: UnsafeMutableRawPointer?, _ size: Int, _ user: UnsafeMutableRawPointer?
) -> UnsafeMutableRawPointer? {
    unsafe with(user) { unsafe $0.move(memory, to: size) }
}
