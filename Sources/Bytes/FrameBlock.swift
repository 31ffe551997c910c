/// Memory in which several sessions of a loop make frames, each within one call.
///
/// A session may be called while another one is within its call. `use` then keeps the bytes of the outer one.
///
/// Raw memory. The invariant: `bytes` are `size` bytes, all of them initialised, until the block is gone. Their content
/// belongs to the innermost `use`.
public final class FrameBlock {
    /// A frame of 16,384 bytes with its header, and some more.
    public static let size = 20 * 1024
    public let bytes: UnsafeMutableRawPointer
    private var isUsed = false

    public init() {
        bytes = .allocate(byteCount: Self.size, alignment: 16)
        bytes.initializeMemory(as: UInt8.self, repeating: 0, count: Self.size)
    }

    deinit { bytes.deallocate() }

    /// Runs `body`, which leaves nothing behind that it needs.
    public func use(_ body: () -> Void) {
        guard isUsed else {
            isUsed = true
            body()
            isUsed = false
            return
        }
        let outer = [UInt8](UnsafeRawBufferPointer(start: bytes, count: Self.size))
        body()
        outer.withUnsafeBytes { bytes.copyMemory(from: $0.baseAddress ?? UnsafeRawPointer(bytes), byteCount: $0.count) }
    }
}
