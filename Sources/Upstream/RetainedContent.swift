internal import Bytes

/// What was sent of a request's content, for another server, should the one that got it not process it: one block of it at most.
struct RetainedContent: ~Copyable {
    private var buffer: ByteBuffer?
    /// Nothing is missing from it.
    private(set) var isWhole = true

    /// Bytes of memory that the content holds in blocks.
    var footprint: Int {
        switch buffer {
        case .none: 0
        case .some(let buffer): buffer.footprint
        }
    }

    mutating func keep(_ first: UInt8?, _ content: Span<UInt8>, in pool: BufferPool) {
        guard isWhole else { return }
        if buffer == nil { buffer = ByteBuffer(pool: pool) }
        if let first { buffer?.append(first) }
        buffer?.append(content)
        if buffer?.overflowed == true { drop() }
    }

    /// Hands out what there is. It is kept on: the next server may do the same.
    func replay(_ send: (Span<UInt8>) -> Void) {
        switch buffer {
        case .none: break
        case .some(let buffer): if !buffer.isEmpty { send(buffer.readable) }
        }
    }

    /// It will not be needed: the request was processed, or there is too much of it.
    mutating func drop() {
        buffer = nil
        isWhole = false
    }

    /// For the next request.
    mutating func reset() {
        buffer = nil
        isWhole = true
    }
}
