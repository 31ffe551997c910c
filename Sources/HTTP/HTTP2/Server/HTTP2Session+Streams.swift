internal import Bytes
internal import CNghttp2

/// What becomes of streams: from what nghttp2 tells to the methods of `HTTP2Stream`, and back.
extension HTTP2Session {
    // MARK: - Requests

    /// A request begins. - Returns: the object that stands for it.
    func begin(_ id: Int32) -> HTTP2Stream {
        let stream: HTTP2Stream
        if let slot = idle.popLast() {
            stream = streams[slot]
        } else {
            stream = handler.makeStream(pool)
            stream.slot = streams.count
            stream.session = self
            streams.append(stream)
        }
        stream.id = id
        stream.state = StreamState()
        incoming.begin(trailers: false)
        requestCount += 1
        return stream
    }

    /// All fields of a request are there.
    func headEnded(_ stream: HTTP2Stream, endsStream: Bool) {
        stream.state.clientEnded = endsStream
        // It came too late, and was answered.
        guard !stream.state.isSeen, !stream.state.isReset else { return incoming.drop() }
        do throws(MessageFault) {
            let length = try incoming.finish(&stream.head, &stream.headBytes, endsStream: endsStream)
            stream.state.missing = endsStream ? nil : length
        } catch {
            return fail(stream, error)
        }
        stream.state.isListening = true
        stream.state.isTunnel = stream.head.opensWebSocket
        // Content-Length 0 without the end of the stream: what follows shows whether that is true, and until then
        // nobody is to see a request that may yet be malformed.
        stream.state.isHeld = !endsStream && stream.state.missing == 0
        if stream.state.isHeld {
            hasHeld = true
            stream.headHeld()
        } else {
            showHead(of: stream)
        }
        // The content may come later than the head: a forwarder must not hold back the head until content arrives. Some
        // clients wait for the answer first.
        if endsStream { clientEnded(stream) } else { touch(stream) }
    }

    /// Nothing more of the stream may be there for now: looked at when all that came is read.
    private func touch(_ stream: HTTP2Stream) {
        guard !stream.state.isTouched else { return }
        stream.state.isTouched = true
        touched.append(stream.slot)
    }

    /// Refuses what is held beyond a few requests, now that all that has come was read: most ends come right behind their heads.
    /// Nobody has looked at these, so the client may send them again.
    func boundHeld() {
        guard hasHeld else { return }
        hasHeld = false
        var held = 0
        for stream in streams where stream.isHeld {
            held += 1
            guard held > limits.heldRequests else { continue }
            stream.reset(.refusedStream)
            countProvokedReset()
        }
    }

    private func showHead(of stream: HTTP2Stream) {
        stream.state.isSeen = true
        stream.headReceived()
    }

    func trailersEnded(_ stream: HTTP2Stream, endsStream: Bool) {
        stream.state.clientEnded = endsStream
        guard stream.state.isListening else { return }
        // RFC 9113 section 8.5: a tunnel has nothing but DATA.
        guard !stream.state.isTunnel else { return fail(stream, .fieldsInTunnel) }
        do throws(MessageFault) {
            try incoming.finishTrailers(endsStream: endsStream)
        } catch {
            return fail(stream, error)
        }
        clientEnded(stream)
    }

    func arrived(_ content: Span<UInt8>, on stream: HTTP2Stream) {
        guard stream.state.isListening else { return consumed(content.count, on: stream) }
        guard let missing = stream.state.missing, content.count > missing else {
            if let missing = stream.state.missing { stream.state.missing = missing - UInt64(content.count) }
            return take(content, on: stream)
        }
        stream.state.missing = 0
        take(content.extracting(first: Int(missing)), on: stream)
        consumed(content.count - Int(missing), on: stream)
        fail(stream, .contentLengthDisagrees)
    }

    /// Hands content on: of a stated length all but the last octet, which waits for the end of the stream. So a request whose
    /// content is longer than it says is never complete for anybody.
    private func take(_ content: Span<UInt8>, on stream: HTTP2Stream) {
        guard !content.isEmpty else { return }
        stream.state.isLastKept = stream.state.missing == 0
        let free = content.count - (stream.state.isLastKept ? 1 : 0)
        let isNext = stream.waiting.isEmpty && !stream.state.isFull
        let taken = isNext && free > 0 ? deliver(content.extracting(first: free), to: stream) : 0
        if taken < content.count { stream.waiting.append(content.extracting(taken...)) }
        consumed(taken, on: stream)
        if stream.state.isWanted { offer(stream) }
        touch(stream)
    }

    /// Offers what has waited.
    func offer(_ stream: HTTP2Stream) {
        guard !stream.state.isDelivering else {
            stream.state.isWanted = true
            return
        }
        stream.state.isFull = false
        while stream.state.isListening, !stream.state.isFull || stream.state.isWanted, stream.free > 0 {
            stream.state.isWanted = false
            let taken = deliver(stream.waiting.front.extracting(first: stream.free), to: stream)
            stream.waiting.consume(taken)
            consumed(taken, on: stream)
        }
        stream.state.isWanted = false
        tellEnd(stream)
    }

    private func deliver(_ content: Span<UInt8>, to stream: HTTP2Stream) -> Int {
        stream.state.isDelivering = true
        let taken = stream.receive(content: content)
        stream.state.isDelivering = false
        precondition(taken >= 0 && taken <= content.count, "took more than was there")
        stream.state.isFull = taken < content.count
        return taken
    }

    /// The client's half of the stream is complete.
    func clientEnded(_ stream: HTTP2Stream) {
        stream.state.clientEnded = true
        guard stream.state.isListening else { return }
        guard stream.state.missing ?? 0 == 0 else { return fail(stream, .contentLengthDisagrees) }
        if stream.state.isHeld {
            stream.state.isHeld = false
            showHead(of: stream)
        }
        stream.state.isLastKept = false
        if stream.state.isFull { tellEnd(stream) } else { offer(stream) }
    }

    private func tellEnd(_ stream: HTTP2Stream) {
        guard stream.state.clientEnded, !stream.state.isEndReported, stream.state.isListening, stream.waiting.isEmpty
        else {
            return
        }
        stream.state.isEndReported = true
        stream.contentEnded()
    }

    /// Gives the client back as much of its windows: of the connection's alone if nothing more is wanted on the stream.
    private func consumed(_ count: Int, on stream: HTTP2Stream) {
        guard count > 0, !isClosed else { return }
        if stream.state.isListening {
            unsafe nghttp2_session_consume(library, stream.id, count)
        } else {
            unsafe nghttp2_session_consume_connection(library, count)
        }
    }

    func disregard(_ stream: HTTP2Stream) {
        stream.state.isListening = false
        stream.state.isSeen = true
        dropWaiting(stream)
    }

    /// The request is malformed (RFC 9113 section 8.1.1).
    private func fail(_ stream: HTTP2Stream, _ fault: MessageFault) {
        stream.state.isListening = false
        stream.state.isFaulted = true
        stream.state.isSeen = true
        dropWaiting(stream)
        countProvokedReset()
        if self.fault == nil { stream.requestFaulted(fault) }
    }

    /// Counts a stream that the client has made us reset.
    public func countProvokedReset() {
        if let excess = watch.countProvokedReset(now: now) { end(.excess(excess)) }
    }

    /// Out of the way of who takes fields: there, the session would be retained for each of them.
    @inline(never) func headTooLong() { end(.excess(.headerList)) }

    /// DATA that is all padding: nghttp2 did not report its header.
    func countPaddingAlone() {
        if let excess = watch.countEmptyFrame(now: now) { end(.excess(excess)) }
    }

    /// DATA that nghttp2 has not reported belonged to streams that are over.
    func checkData() {
        if let excess = watch.checkData(reported: reportedData, now: now) { end(.excess(excess)) }
    }

    // MARK: - The end of a stream

    /// nghttp2 has closed the stream, or the connection is gone.
    func finish(_ stream: HTTP2Stream, _ code: HTTP2ErrorCode) {
        stream.state.isListening = false
        dropWaiting(stream)
        let isAbandoned = !stream.state.responseEnded && !stream.state.isReset
        // What the stream does now concerns no stream any more.
        stream.state.isReset = true
        if isAbandoned { stream.abandoned(code) }
        stream.ended()
        stream.id = 0
        stream.state = StreamState()
        stream.headBytes.removeAll()
        stream.output.expand(pool)
        stream.trailers.removeAll()
        if incompleteHead === stream {
            incompleteHead = nil
            incoming.drop()
        }
        idle.append(stream.slot)
    }

    /// Content that nobody will take counts against the connection's window no longer.
    private func dropWaiting(_ stream: HTTP2Stream) {
        consumed(stream.waiting.count, on: stream)
        stream.waiting.removeAll()
    }
}
