public import Bytes
internal import CNghttp2

/// From what a stream sends to nghttp2.
extension HTTP2ClientSession {
    /// Begins a request.
    ///
    /// - Parameters:
    ///   - scheme: `https`, or `http` on a connection without TLS.
    ///   - authority: host and port, as in Host.
    ///   - endsStream: whether no content follows.
    ///   - target: appends path and query.
    ///   - fields: appends the fields as lines, as for HTTP/1.1. Those of one connection, and Host, are left out; names are
    ///     sent in lower case.
    public func open(
        _ method: Method, scheme: StaticString, authority: Span<UInt8>, endsStream: Bool,
        target: (inout ByteBuffer) -> Void, fields: (inout ByteBuffer) -> Void
    ) throws(HTTP2OpenFailure) -> HTTP2ClientStream {
        guard mayOpen else { throw .closing }
        guard capacity > 0 else { throw .noRoom }
        defer { scratch.removeAll() }
        scratch.removeAll()
        scratch.append(authority)
        target(&scratch)
        let targetEnd = scratch.count
        fields(&scratch)
        guard !scratch.overflowed else { throw .headTooLarge }
        let stream = takeStream()
        var provider = unsafe nghttp2_data_provider()
        unsafe provider.read_callback = readRequestContent
        let user = unsafe Unmanaged.passUnretained(stream).toOpaque()
        var id: Int32 = 0
        unsafe fieldList.withRequest(
            method.name, scheme, in: scratch.readable, authorityEnd: authority.count, targetEnd: targetEnd
        ) { list in
            id =
                unsafe endsStream
                ? nghttp2_submit_request(library, nil, list.baseAddress, list.count, nil, user)
                : nghttp2_submit_request(library, nil, list.baseAddress, list.count, &provider, user)
        }
        guard id > 0 else {
            idle.append(stream.slot)
            // Out of memory, or of numbers.
            throw .closing
        }
        stream.id = id
        stream.state.isOnWire = true
        stream.state.isHead = method == .head
        stream.state.isEnding = endsStream
        openStreams += 1
        streamsOnWire += 1
        requestCount += 1
        watch.requestBegan()
        return stream
    }

    /// - Returns: an object that serves no request.
    private func takeStream() -> HTTP2ClientStream {
        if let slot = idle.popLast() {
            streams[slot].state = ClientStreamState()
            return streams[slot]
        }
        let stream = handler.makeStream(pool)
        stream.slot = streams.count
        stream.session = self
        streams.append(stream)
        return stream
    }

    /// There is content or the end again.
    func resume(_ stream: HTTP2ClientStream) {
        guard stream.state.isDeferred, !isClosed else { return }
        stream.state.isDeferred = false
        unsafe nghttp2_session_resume_data(library, stream.id)
    }

    /// nghttp2 asks for content to be framed.
    ///
    /// - Returns: how much was written to `room`, or NGHTTP2_ERR_DEFERRED.
    func produce(
        _ stream: HTTP2ClientStream, _ room: UnsafeMutableBufferPointer<UInt8>, _ flags: inout UInt32
    ) -> Int {
        let count = min(stream.output.count, room.count)
        if count > 0 {
            unsafe stream.output.withUnsafeReadable {
                _ = unsafe room.update(fromContentsOf: $0.prefix(count))
            }
            stream.output.consume(count)
            if !stream.state.isEnding, !stream.state.isDrained {
                stream.state.isDrained = true
                drained.append(stream.slot)
            }
        }
        guard stream.output.isEmpty else { return count }
        if stream.state.isEnding {
            stream.output.releaseIfEmpty()
            flags |= NGHTTP2_DATA_FLAG_EOF.rawValue
            return count
        }
        guard count == 0 else { return count }
        stream.state.isDeferred = true
        return Int(NGHTTP2_ERR_DEFERRED.rawValue)
    }

    /// Resets a stream whose response the requester no longer wants.
    func reset(_ stream: HTTP2ClientStream, _ code: HTTP2ErrorCode) {
        if stream.state.isOnWire, !stream.state.isReset, !stream.state.isComplete { watch.requestCancelled() }
        deafen(stream)
        if stream.state.isOnWire { return submitReset(code, on: stream) }
        // Its response was whole and waited to be taken.
        if !stream.state.isDelivering { finish(stream) }
    }

    func submitReset(_ code: HTTP2ErrorCode, on stream: HTTP2ClientStream) {
        guard !isClosed, !isBroken, takeReset() else { return }
        unsafe nghttp2_submit_rst_stream(library, UInt8(NGHTTP2_FLAG_NONE.rawValue), stream.id, code.rawValue)
    }
}
