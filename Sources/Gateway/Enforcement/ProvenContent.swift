internal import Cryptography
internal import HTTP
internal import RequestProof
internal import Upstream

/// The content of a request whose proof has been verified. It is hashed as it comes, and kept back until all of it is known to
/// be what the proof says: the whole of it where it is collected, its last byte where it is streamed.
struct ProvenContent: ~Copyable {
    private var digests: ContentDigests
    /// One of the two.
    private var collected: CollectedContent?
    private var streamed: StreamedContent?
    /// All of it has come, and is what the proof says.
    private(set) var isVerified = false

    init(_ digests: consuming ContentDigests, _ collected: consuming CollectedContent) {
        self.digests = digests
        self.collected = consume collected
    }

    init(_ digests: consuming ContentDigests, _ streamed: StreamedContent) {
        self.digests = digests
        self.streamed = streamed
    }

    /// Bytes of memory that the content holds in blocks.
    var footprint: Int {
        switch collected {
        case .none: 0
        case .some(let collected): collected.footprint
        }
    }

    /// The framing of the content towards the upstream, once it may be forwarded.
    ///
    /// - Parameter framing: the client's.
    func framing(replacing framing: ContentFraming) -> ContentFraming {
        switch collected {
        case .none: framing
        // As one piece of known length, also where some of it has gone already, and goes once more.
        case .some(let collected): collected.length > 0 ? .length(UInt64(collected.length)) : .none
        }
    }

    /// Holds what has come. - Returns: false if there is no room for it.
    mutating func collect(_ content: Span<UInt8>) throws(CryptographyError) -> Bool {
        guard collected?.append(content) == true else { return false }
        try digests.update(content)
        return true
    }

    /// Passes on what has come, as far as there is room. - Returns: how much of it was taken.
    mutating func pass(_ content: Span<UInt8>, into sink: some ContentSink) throws(CryptographyError) -> Int {
        let taken = streamed?.pass(content, into: sink) ?? 0
        try digests.update(content.extracting(first: taken))
        return taken
    }

    /// All of it has come. - Returns: whether it is what the proof says.
    mutating func verify() throws(CryptographyError) -> Bool {
        isVerified = try digests.match()
        return isVerified
    }

    /// Moves what was kept back, and then the end of the message, as far as there is room. - Returns: whether that was all.
    mutating func release(into sink: some ContentSink) -> Bool {
        guard isVerified else { return false }
        return collected?.release(into: sink) ?? streamed?.release(into: sink) ?? false
    }
}
