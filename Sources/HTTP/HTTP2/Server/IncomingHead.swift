internal import Bytes

/// The block of fields that is being received, with the head that comes of it: one value, since it is used for every field, and
/// each property of a class that is would be checked for exclusivity each time.
struct IncomingHead: ~Copyable {
    private var block: RequestBlock
    private(set) var head = RequestHead()
    /// What the head's ranges refer to.
    private var bytes: ByteBuffer
    /// A few octets that decode to a great many.
    private let mostDecoded: Int

    init(heads: HeadLimits, limits: HTTP2Limits, pool: BufferPool) {
        block = RequestBlock(heads: heads, limits: limits, pool: pool)
        bytes = ByteBuffer(pool: pool)
        mostDecoded = 4 * limits.headerList
    }

    mutating func begin(trailers: Bool) {
        head.reset()
        bytes.removeAll()
        block.begin(trailers: trailers)
    }

    /// - Returns: whether no more was decoded than may be, as SETTINGS_MAX_HEADER_LIST_SIZE counts it.
    mutating func take(_ name: Span<UInt8>, _ value: Span<UInt8>) -> Bool {
        block.take(name, value, into: &head, &bytes)
        return block.size <= mostDecoded
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
