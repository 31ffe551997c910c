internal import Bytes

/// The block of fields that is being received, with the head that comes of it: one value, since it is used for every field, and
/// each property of a class that is would be checked for exclusivity each time.
struct IncomingHead: ~Copyable {
    private var block: RequestBlock
    private(set) var head = RequestHead()
    /// What the head's ranges refer to.
    private var bytes: ByteBuffer

    init(heads: HeadLimits, limits: HTTP2Limits, pool: BufferPool) {
        block = RequestBlock(heads: heads, limits: limits, pool: pool)
        bytes = ByteBuffer(pool: pool)
    }

    mutating func begin(trailers: Bool) {
        head.reset()
        bytes.removeAll()
        block.begin(trailers: trailers)
    }

    /// - Returns: octets decoded so far, as SETTINGS_MAX_HEADER_LIST_SIZE counts them.
    mutating func take(_ name: Span<UInt8>, _ value: Span<UInt8>) -> Int {
        block.take(name, value, into: &head, &bytes)
        return block.size
    }

    /// What has come will not be complete.
    mutating func drop() { bytes.removeAll() }

    /// The trailers are complete.
    mutating func finishTrailers(endsStream: Bool) throws(MessageFault) {
        try block.finishTrailers(endsStream: endsStream)
    }

    /// The head is complete, as well-formed as it may be, and the caller's from now on.
    ///
    /// - Parameters:
    ///   - head, bytes: swapped for those that have come.
    /// - Returns: Content-Length; nil if there is none.
    mutating func finish(
        _ head: inout RequestHead, _ bytes: inout ByteBuffer, endsStream: Bool
    ) throws(MessageFault) -> UInt64? {
        defer {
            swap(&head, &self.head)
            swap(&bytes, &self.bytes)
        }
        return try block.finish(&self.head, &self.bytes, endsStream: endsStream)
    }
}
