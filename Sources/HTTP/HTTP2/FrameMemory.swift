internal import Bytes
internal import CLinux
internal import CNghttp2
internal import Glibc

/// The accounted memory of one nghttp2 session.
///
/// It comes from the allocator, through the loop's pool of pieces: nghttp2 allocates several for each stream. The
/// exception is the block of 16 KiB in which nghttp2 makes frames, and which it keeps. That block comes from the
/// kernel, so its untouched pages take no memory: the frames of most connections are small.
///
/// C and raw memory, each use marked `unsafe`. The invariant: `block` is nil, or `length` bytes from `mmap` that
/// nghttp2 has not freed yet. nghttp2 gets a pointer to this object, which its owner keeps longer than the session.
@safe final class FrameMemory {
    private let meter: MemoryMeter
    private let pieces: PiecePool
    /// The bytes of the session.
    private(set) var used = 0
    /// The bytes that the meter knows of. It learns of larger changes only: most allocations live for a request.
    private var reported = 0
    private static let step = 4096
    private var block: UnsafeMutableRawPointer?
    /// Frames of 16,384 bytes with their headers, in whole pages.
    private static let length = 20 * 1024

    init(_ meter: MemoryMeter, _ pieces: PiecePool) {
        self.meter = meter
        self.pieces = pieces
        unsafe block = nil
    }

    deinit {
        // nghttp2 frees everything when its session is deleted.
        unsafe precondition(block == nil, "the session is gone before its memory")
        meter.add(-reported)
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
        return unsafe size > 16 * 1024 && size <= Self.length && block == nil
            ? takeBlock() : counted(Glibc.malloc(size))
    }

    private func takeBlock() -> UnsafeMutableRawPointer? {
        let made = unsafe mmap(nil, Self.length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
        guard let made = unsafe made, unsafe made != MAP_FAILED else { return nil }
        unsafe block = made
        count(Self.length)
        return unsafe made
    }

    fileprivate func give(_ memory: UnsafeMutableRawPointer?) {
        guard let memory = unsafe memory else { return }
        guard unsafe !isBlock(memory) else {
            unsafe munmap(memory, Self.length)
            unsafe block = nil
            return count(-Self.length)
        }
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
        guard size > Self.length else { return unsafe memory }
        guard let larger = unsafe counted(Glibc.malloc(size)) else { return nil }
        unsafe larger.copyMemory(from: memory, byteCount: Self.length)
        unsafe give(memory)
        return unsafe larger
    }

    private func isBlock(_ memory: UnsafeMutableRawPointer?) -> Bool {
        unsafe memory != nil && memory == block
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
