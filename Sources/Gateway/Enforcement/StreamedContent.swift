internal import HTTP
internal import Upstream

/// Content that is forwarded as it arrives, except for its last byte. Until that byte is sent, no upstream can take the
/// message for complete, even if the connection breaks.
///
/// Where the length is known, the last byte is. Of chunks each byte may be the last one, until another follows.
struct StreamedContent {
    /// Nil for chunks.
    private let length: UInt64?
    /// What went on.
    private var passed: UInt64 = 0
    private var kept: UInt8?
    private var isReleased = false

    /// - Parameter framing: the client's, which the upstream gets too.
    init(_ framing: ContentFraming) {
        length = if case .length(let length) = framing { length } else { nil }
    }

    /// Passes on what there is room for. - Returns: how much of `content` was taken.
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
        // What there was no room for waits with the client, and more than one byte of it.
        if count == most, taken < content.count {
            kept = content[taken]
            taken += 1
        }
        return taken
    }

    /// The last byte, and what ends the message. - Returns: false if there is no room for all of it yet.
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
