internal import CNghttp2
internal import Glibc

/// Where a session of nghttp2 gets its memory: from the allocator, but for the block of 16 KiB in which it puts frames together, and
/// which it keeps for as long as it lives. That one comes from the kernel: pages of it that no frame has reached yet take up nothing,
/// and the frames of most connections are small.
///
/// C and raw memory, each use marked `unsafe`. The invariant: `block` is nil, or what `mmap` gave for `length` octets and nghttp2
/// has not freed yet. nghttp2 is handed a pointer to this object, which its owner keeps for longer than the session.
@safe final class FrameMemory {
    private var block: UnsafeMutableRawPointer?
    /// Frames of 16,384 octets with their headers, in whole pages.
    private static let length = 20 * 1024

    init() { unsafe block = nil }

    deinit {
        // nghttp2 has freed everything when its session was deleted.
        unsafe precondition(block == nil, "the session is gone before its memory")
    }

    /// What nghttp2 copies and then calls.
    var functions: nghttp2_mem {
        unsafe nghttp2_mem(
            mem_user_data: Unmanaged.passUnretained(self).toOpaque(), malloc: allocate, free: release,
            calloc: { count, size, _ in unsafe Glibc.calloc(count, size) }, realloc: resize)
    }

    /// - Returns: nil if there is none, as `malloc`.
    fileprivate func take(_ size: Int) -> UnsafeMutableRawPointer? {
        guard size > 16 * 1024, size <= Self.length, unsafe block == nil else { return unsafe Glibc.malloc(size) }
        let made = unsafe mmap(nil, Self.length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
        guard let made = unsafe made, unsafe made != MAP_FAILED else { return nil }
        unsafe block = made
        return unsafe made
    }

    fileprivate func give(_ memory: UnsafeMutableRawPointer?) {
        guard unsafe isBlock(memory) else { return unsafe Glibc.free(memory) }
        unsafe munmap(memory, Self.length)
        unsafe block = nil
    }

    fileprivate func move(_ memory: UnsafeMutableRawPointer?, to size: Int) -> UnsafeMutableRawPointer? {
        guard let memory = unsafe memory else { return unsafe take(size) }
        guard unsafe isBlock(memory) else { return unsafe Glibc.realloc(memory, size) }
        guard size > Self.length else { return unsafe memory }
        guard let larger = unsafe Glibc.malloc(size) else { return nil }
        unsafe larger.copyMemory(from: memory, byteCount: Self.length)
        unsafe give(memory)
        return unsafe larger
    }

    private func isBlock(_ memory: UnsafeMutableRawPointer?) -> Bool {
        unsafe memory != nil && memory == block
    }
}

private func owner(_ user: UnsafeMutableRawPointer?) -> FrameMemory {
    guard let user = unsafe user else { preconditionFailure("nghttp2 was given its memory") }
    return unsafe Unmanaged<FrameMemory>.fromOpaque(user).takeUnretainedValue()
}

private func allocate(_ size: Int, _ user: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
    unsafe owner(user).take(size)
}

private func release(_ memory: UnsafeMutableRawPointer?, _ user: UnsafeMutableRawPointer?) {
    unsafe owner(user).give(memory)
}

private func resize(
    _ memory: UnsafeMutableRawPointer?, _ size: Int, _ user: UnsafeMutableRawPointer?
) -> UnsafeMutableRawPointer? {
    unsafe owner(user).move(memory, to: size)
}
