internal import Bytes
internal import Cryptography
internal import HTTP
internal import Registry
internal import RequestProof
internal import Upstream

/// The content of a request with a verified proof. It is hashed as it arrives, and held back until its digest
/// matches: all of it where it is collected, its last byte where it is streamed.
final class ProvenContent {
    private var digests: ContentDigests
    /// One of these two is set.
    private var collected: CollectedContent?
    private var streamed: StreamedContent?
    /// Whether the content may be forwarded to its end: all of it has arrived and the digest matches, or the route only
    /// observes.
    private(set) var isReleased = false

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

    /// Returns the framing towards the upstream, once the content may be forwarded.
    ///
    /// - Parameter framing: The client's framing.
    func framing(replacing framing: ContentFraming) -> ContentFraming {
        switch collected {
        case .none: framing
        // A known length, also if some of it was sent already and is sent again.
        case .some(let collected): collected.length > 0 ? .length(UInt64(collected.length)) : .none
        }
    }

    /// Holds content that has arrived.
    ///
    /// - Returns: False if there is no room for it.
    func collect(_ content: Span<UInt8>) throws(CryptographyError) -> Bool {
        guard collected?.append(content) == true else { return false }
        try digests.update(content)
        return true
    }

    /// Forwards content that has arrived, as far as there is room.
    ///
    /// - Returns: How many bytes were taken.
    func pass(_ content: Span<UInt8>, into sink: some ContentSink) throws(CryptographyError) -> Int {
        let taken = streamed?.pass(content, into: sink) ?? 0
        try digests.update(content.extracting(first: taken))
        return taken
    }

    /// Compares the digest when all content has arrived.
    ///
    /// - Returns: Whether it matches the proof.
    func verify() throws(CryptographyError) -> Bool {
        isReleased = try digests.match()
        return isReleased
    }

    /// Lets content pass whose digest does not match.
    func pass() { isReleased = true }

    /// Lets collected content pass. Streamed content is not complete yet.
    func passCollected() { if collected != nil { isReleased = true } }

    /// Forwards what was held back, and then the end of the message, as far as there is room.
    ///
    /// - Returns: Whether that was all.
    func release(into sink: some ContentSink) -> Bool {
        guard isReleased else { return false }
        return collected?.release(into: sink) ?? streamed?.release(into: sink) ?? false
    }
}

/// The running digests of content that is arriving, with the expected ones.
struct ContentDigests: ~Copyable {
    private let expected: ContentDigest?
    private var sha256: RunningDigest<32>?
    private var sha512: RunningDigest<64>?

    /// Begins the digests.
    ///
    /// - Parameter expected: The digests that must match; nil only without content.
    init(expecting expected: ContentDigest?, _ library: LibraryContext) throws(CryptographyError) {
        self.expected = expected
        sha256 = expected?.sha256 == nil ? nil : try .sha256(library)
        sha512 = expected?.sha512 == nil ? nil : try .sha512(library)
    }

    mutating func update(_ content: Span<UInt8>) throws(CryptographyError) {
        try sha256?.update(content)
        try sha512?.update(content)
    }

    /// Returns whether the content matches every expected digest. Called once, when it is complete.
    mutating func match() throws(CryptographyError) -> Bool {
        var isMatch = true
        if let running = sha256.take(), let expected = expected?.sha256 {
            let digest = try running.finish()
            if !ConstantTime.areEqual(digest.span, expected.span) { isMatch = false }
        }
        if let running = sha512.take(), let expected = expected?.sha512 {
            let digest = try running.finish()
            if !ConstantTime.areEqual(digest.span, expected.span) { isMatch = false }
        }
        return isMatch
    }
}

/// Content that is held until its digest matches, within the worker's budget.
struct CollectedContent: ~Copyable {
    private var chain: BufferChain
    private let budget: ContentBudget
    private let device: DeviceID

    init(from device: DeviceID, pool: BufferPool, budget: ContentBudget) {
        chain = BufferChain(pool: pool)
        self.budget = budget
        self.device = device
    }

    deinit {
        budget.give(chain.count, of: device)
    }

    /// Bytes of memory that the content holds in blocks.
    var footprint: Int { chain.footprint }
    /// Bytes that are held.
    var count: Int { chain.count }
    /// Bytes appended so far.
    private(set) var length = 0

    /// Appends content.
    ///
    /// - Returns: False if the budget is exhausted; then nothing was taken.
    mutating func append(_ content: Span<UInt8>) -> Bool {
        guard budget.take(content.count, for: device) else { return false }
        chain.append(content)
        length += content.count
        return true
    }

    /// Forwards as much as fits.
    ///
    /// - Returns: Whether that was all.
    mutating func release(into sink: some ContentSink) -> Bool {
        while !chain.isEmpty {
            let offered = chain.frontCount
            let taken = sink.write(prefixOf: chain.front)
            chain.consume(taken)
            budget.give(taken, of: device)
            if taken < offered { return false }
        }
        return true
    }
}

/// The content that one worker may hold for requests that are not complete or not forwarded yet. A limit per request
/// is not enough, because there may be thousands. A device gets only a share, so that it cannot lock out all others.
final class ContentBudget {
    private var left: Int
    private let share: Int
    /// The bytes that each device holds.
    private var held: [DeviceID: Int] = [:]

    /// Creates a budget.
    ///
    /// - Parameters:
    ///   - limit: In bytes.
    ///   - share: The maximum of one device, in bytes: at least the largest content of a request.
    init(limit: Int, share: Int) {
        left = limit
        self.share = share
    }

    /// The number of devices that hold content.
    var holders: Int { held.count }

    func take(_ count: Int, for device: DeviceID) -> Bool {
        let before = held[device] ?? 0
        guard count <= left, before + count <= share else { return false }
        left -= count
        if before + count > 0 { held[device] = before + count }
        return true
    }

    func give(_ count: Int, of device: DeviceID) {
        guard count > 0, let before = held[device] else { return }
        left += count
        held[device] = before > count ? before - count : nil
    }
}

/// Content that is forwarded as it arrives, except for its last byte. Until that byte is sent, no upstream can take
/// the message for complete, even if the connection breaks.
///
/// With a known length, the position of the last byte is known. With chunks each byte may be the last one, until
/// another follows.
struct StreamedContent {
    /// Nil for chunks.
    private let length: UInt64?
    /// Bytes forwarded so far.
    private var passed: UInt64 = 0
    private var kept: UInt8?
    private var isReleased = false

    /// Begins the content.
    ///
    /// - Parameter framing: The client's framing, which the upstream gets too.
    init(_ framing: ContentFraming) {
        length = if case .length(let length) = framing { length } else { nil }
    }

    /// Forwards what there is room for.
    ///
    /// - Returns: How many bytes of `content` were taken.
    mutating func pass(_ content: Span<UInt8>, into sink: some ContentSink) -> Int {
        let before = kept == nil ? 0 : 1
        let free = length.map { Int(clamping: $0 - 1 - passed) } ?? before + content.count - 1
        let most = min(free, before + content.count)
        let count = min(most, sink.contentRoom)
        var taken = 0
        if count > 0 {
            taken = count - before
            sink.write(kept, content.extracting(first: taken))
            kept = nil
            passed += UInt64(count)
        }
        // What found no room waits at the client: more than one byte.
        if count == most, taken < content.count {
            kept = content[taken]
            taken += 1
        }
        return taken
    }

    /// Forwards the last byte and the end of the message.
    ///
    /// - Returns: False if there is no room for all of it yet.
    mutating func release(into sink: some ContentSink) -> Bool {
        guard !isReleased else { return true }
        if let last = kept {
            guard sink.contentRoom > 0 else { return false }
            sink.write(last, Span())
            kept = nil
        }
        isReleased = sink.writeEnd()
        return isReleased
    }
}
