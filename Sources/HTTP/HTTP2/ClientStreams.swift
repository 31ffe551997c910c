/// The client's half of its highest streams, as the client's own frames show it.
///
/// nghttp2 ignores frames on closed streams. They may have been in flight when we reset the stream, but not behind the
/// client's own END_STREAM or RST_STREAM (RFC 9113 section 5.1). Older streams than those remembered are not judged.
struct ClientStreams {
    /// The highest stream that the client has opened.
    private(set) var highest: UInt32 = 0
    /// The streams that the client has opened: bit n is stream highest - 2(n + 1).
    private var openedBelow: UInt64 = 0
    /// The streams that the client has ended with END_STREAM, and with RST_STREAM: bit n is stream highest - 2n.
    private var ended: UInt64 = 0
    private var cancelled: UInt64 = 0
    /// The streams with a frame behind the client's RST_STREAM, at most `mostLate`, until they are taken.
    private var late: [UInt32] = []

    private static let mostLate = 64

    /// Records the head of a request on a stream above the highest one.
    mutating func open(_ stream: UInt32, isEnded: Bool) {
        let distance = (stream - highest + 1) / 2
        openedBelow = openedBelow << distance | 1 << (distance - 1)
        ended = ended << distance | (isEnded ? 1 : 0)
        cancelled <<= distance
        highest = stream
    }

    /// Records fields or content.
    ///
    /// - Returns: the code with which the connection ends. Nil if the frame is admissible, or its stream is new, of
    ///   even number, or forgotten.
    mutating func frameCame(on stream: UInt32, isEnded: Bool) -> HTTP2ErrorCode? {
        guard let place = place(of: stream) else { return nil }
        // Section 5.1.1: a stream that was skipped when a higher one was opened.
        if place > 0, openedBelow >> (place - 1) & 1 == 0 { return .protocolError }
        let bit: UInt64 = 1 << place
        if cancelled & bit != 0 {
            if late.count < Self.mostLate, !late.contains(stream) { late.append(stream) }
        } else if ended & bit != 0 {
            return .streamClosed
        } else if isEnded {
            ended |= bit
        }
        return nil
    }

    /// Records RST_STREAM.
    mutating func cancel(_ stream: UInt32) {
        if let place = place(of: stream) { cancelled |= 1 << place }
    }

    /// Returns the streams with a frame behind the client's RST_STREAM, each once, and forgets these frames.
    mutating func takeLate() -> [UInt32] {
        guard !late.isEmpty else { return [] }
        defer { late = [] }
        return late
    }

    /// Returns half the distance from the highest stream, or nil if that is more than 64 or no whole number.
    @inline(__always)
    private func place(of stream: UInt32) -> UInt32? {
        guard stream <= highest, (highest - stream).isMultiple(of: 2) else { return nil }
        let place = (highest - stream) / 2
        return place <= UInt64.bitWidth ? place : nil
    }
}
