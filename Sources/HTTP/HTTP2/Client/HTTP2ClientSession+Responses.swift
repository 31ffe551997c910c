internal import Bytes
internal import CNghttp2

/// What becomes of responses: from what nghttp2 tells to the methods of `HTTP2ClientStream`.
extension HTTP2ClientSession {
    /// More interim responses before one final response are none that a service has a use for.
    private static var interimLimit: Int { 16 }

    // MARK: - Blocks of fields

    /// A head or trailers begin.
    func blockBegan(_ stream: HTTP2ClientStream) {
        isMidBlock = true
        block.begin()
        stream.state.isAnswered = true
        guard !stream.state.isReset else { return }
        if stream.state.hasHead { return stream.state.hasTrailers = true }
        stream.headBytes.removeAll()
        stream.head.reset()
    }

    func fieldCame(_ name: Span<UInt8>, _ value: Span<UInt8>, for stream: HTTP2ClientStream) {
        if stream.state.isReset {
            block.skip(name, value)
        } else if stream.state.hasTrailers {
            block.take(name, value, into: &stream.trailers, &stream.trailerBytes)
        } else {
            block.take(name, value, into: &stream.head, &stream.headBytes)
        }
        // A few octets that decode to a great many.
        if block.size > 4 * limits.headerList { end(.excess(.headerList)) }
    }

    func blockEnded(_ stream: HTTP2ClientStream, endsStream: Bool) {
        isMidBlock = false
        guard !stream.state.isReset else { return }
        do throws(MessageFault) {
            if stream.state.hasTrailers {
                try block.finishTrailers(endsStream: endsStream)
                // One that announced content and then has none: `missing` tells.
                return serverEnded(stream)
            }
            let length = try block.finish(&stream.head, isHead: stream.state.isHead, endsStream: endsStream)
            guard !stream.head.isInterim else { return try countInterim(stream) }
            stream.state.hasHead = true
            stream.state.missing = length
        } catch {
            return fail(stream, .malformed(error), .protocolError)
        }
        // No content is to follow, but the stream continues. What arrives next shows whether that is true; until then
        // nobody may see a response that may be malformed.
        stream.state.isHeld = stream.head.framing == .none
        if endsStream {
            serverEnded(stream)
        } else if !stream.state.isHeld {
            deliverHead(stream)
        }
    }

    private func countInterim(_ stream: HTTP2ClientStream) throws(MessageFault) {
        stream.headBytes.removeAll()
        stream.state.interimResponses += 1
        guard stream.state.interimResponses <= Self.interimLimit else { throw .interimResponsesRepeated }
    }

    private func deliverHead(_ stream: HTTP2ClientStream) {
        touch(stream)
        stream.state.isHeld = false
        stream.responseHead(stream.head, stream.headBytes.readable)
        stream.headBytes.removeAll()
    }

    // MARK: - Content

    func contentCame(_ content: Span<UInt8>, on stream: HTTP2ClientStream) {
        guard !stream.state.isReset else { return consumed(content.count, on: stream) }
        guard stream.state.hasHead else {
            consumed(content.count, on: stream)
            return fail(stream, .malformed(.headMissing), .protocolError)
        }
        guard let missing = stream.state.missing else { return take(content, on: stream) }
        guard content.count > missing else {
            stream.state.missing = missing - UInt64(content.count)
            return take(content, on: stream)
        }
        stream.state.missing = 0
        take(content.extracting(first: Int(missing)), on: stream)
        consumed(content.count - Int(missing), on: stream)
        guard !stream.state.isReset else { return }
        let isImpossible = stream.head.framing == .none && stream.head.statedLength != 0
        fail(stream, .malformed(isImpossible ? .contentImpossible : .contentLengthDisagrees), .protocolError)
    }

    /// Hands content on: of a stated length all but the last octet, which waits for the end of the stream. So a response whose
    /// content is longer than it says is never complete for anybody.
    private func take(_ content: Span<UInt8>, on stream: HTTP2ClientStream) {
        guard !content.isEmpty else { return }
        stream.state.isLastKept = stream.state.missing == 0
        let free = content.count - (stream.state.isLastKept ? 1 : 0)
        let isNext = stream.waiting.isEmpty && !stream.state.isFull
        let taken = isNext && free > 0 ? deliver(content.extracting(first: free), to: stream) : 0
        // It may have given up meanwhile.
        guard !stream.state.isReset else { return consumed(content.count, on: stream) }
        if taken < content.count { stream.waiting.append(content.extracting(taken...)) }
        consumed(taken, on: stream)
        if stream.state.isWanted { offer(stream) }
    }

    /// Offers what has waited.
    func offer(_ stream: HTTP2ClientStream) {
        guard !stream.state.isDelivering else {
            stream.state.isWanted = true
            return
        }
        stream.state.isFull = false
        while !stream.state.isReset, !stream.state.isFull || stream.state.isWanted, stream.free > 0 {
            stream.state.isWanted = false
            let taken = deliver(stream.waiting.front.extracting(first: stream.free), to: stream)
            stream.waiting.consume(taken)
            consumed(taken, on: stream)
        }
        stream.state.isWanted = false
        if stream.state.isReset { givenUp(stream) } else { tellEnd(stream) }
    }

    /// The stream was reset within one of its own callbacks.
    private func givenUp(_ stream: HTTP2ClientStream) {
        deafen(stream)
        if !stream.state.isOnWire, stream.id != 0 { finish(stream) }
    }

    private func deliver(_ content: Span<UInt8>, to stream: HTTP2ClientStream) -> Int {
        touch(stream)
        stream.state.isDelivering = true
        let taken = stream.receive(content: content)
        stream.state.isDelivering = false
        precondition(taken >= 0 && taken <= content.count, "took more than was there")
        stream.state.isFull = taken < content.count
        return taken
    }

    /// Gives the server back as much of its windows: of the connection's alone if nothing more is wanted on the stream.
    private func consumed(_ count: Int, on stream: HTTP2ClientStream) {
        guard count > 0, !isClosed, !isBroken else { return }
        if stream.state.isReset || stream.state.isComplete {
            unsafe nghttp2_session_consume_connection(library, count)
        } else {
            unsafe nghttp2_session_consume(library, stream.id, count)
        }
    }

    /// DATA that is all padding: nghttp2 did not report its header.
    func countPaddingAlone() {
        if let excess = watch.countEmptyFrame(now: now) { end(.excess(excess)) }
    }

    // MARK: - The end

    /// The server's half of the stream is complete.
    func serverEnded(_ stream: HTTP2ClientStream) {
        guard !stream.state.isReset else { return }
        guard stream.state.hasHead else { return fail(stream, .malformed(.headMissing), .protocolError) }
        guard stream.state.missing ?? 0 == 0 else {
            return fail(stream, .malformed(.contentLengthDisagrees), .protocolError)
        }
        if stream.state.isHeld { deliverHead(stream) }
        guard !stream.state.isReset else { return }
        stream.state.isComplete = true
        stream.state.isLastKept = false
        if stream.state.isFull { tellEnd(stream) } else { offer(stream) }
    }

    private func tellEnd(_ stream: HTTP2ClientStream) {
        guard stream.state.isComplete, !stream.state.isEndReported, !stream.state.isReset, stream.waiting.isEmpty else {
            return
        }
        touch(stream)
        stream.state.isEndReported = true
        if stream.state.hasTrailers {
            stream.state.isDelivering = true
            stream.responseTrailers(stream.trailers, stream.trailerBytes.readable)
            stream.state.isDelivering = false
            guard !stream.state.isReset else { return givenUp(stream) }
        }
        stream.state.isReset = true
        stream.responseEnded()
        guard stream.state.isOnWire else { return finish(stream) }
        // What remains of the request nobody needs any more (RFC 9113 section 8.1), and half of one is not to look like a whole one.
        if !stream.state.requestEnded { submitReset(.cancel, on: stream) }
    }

    /// There will be no response: the stream is reset with `code`.
    func fail(_ stream: HTTP2ClientStream, _ failure: HTTP2StreamFailure, _ code: HTTP2ErrorCode) {
        deafen(stream)
        submitReset(code, on: stream)
        touch(stream)
        stream.failed(failure)
    }

    /// Nothing of the stream is to be heard any more, and what waits is wanted by nobody.
    func deafen(_ stream: HTTP2ClientStream) {
        stream.state.isReset = true
        // A callback of the stream that is under way notices this when it returns.
        guard !stream.state.isDelivering else { return }
        consumed(stream.waiting.count, on: stream)
        stream.waiting.removeAll()
    }

    /// nghttp2 has closed the stream.
    func wireClosed(_ stream: HTTP2ClientStream, _ code: HTTP2ErrorCode) {
        let failure: HTTP2StreamFailure
        if stream.state.headEnd == 0 {
            failure = .unprocessed(isServerGoing ? .goingAway : .unsent)
        } else if code == .refusedStream, !stream.state.isAnswered {
            failure = .unprocessed(.refused)
        } else {
            failure = .reset(code)
        }
        leaveWire(stream, failure)
    }

    /// The stream is over but for what of its response waits to be taken.
    ///
    /// - Parameter failure: what it means where no complete response has come.
    func leaveWire(_ stream: HTTP2ClientStream, _ failure: HTTP2StreamFailure) {
        stream.state.isOnWire = false
        streamsOnWire -= 1
        stream.output.removeAll()
        if !stream.state.isReset {
            if stream.state.isComplete, !stream.state.isEndReported { return }
            if !stream.state.isComplete {
                deafen(stream)
                touch(stream)
                stream.failed(failure)
            }
        }
        finish(stream)
    }

    /// Nothing is sent or received on the stream, and nothing waits.
    func finish(_ stream: HTTP2ClientStream) {
        deafen(stream)
        stream.state.isReset = true
        touch(stream)
        openStreams -= 1
        stream.headBytes.removeAll()
        stream.trailers.fields.removeAll(keepingCapacity: true)
        stream.trailerBytes.removeAll()
        stream.output.removeAll()
        stream.ended()
        stream.id = 0
        if !isClosed { handler.capacityChanged() }
    }
}
