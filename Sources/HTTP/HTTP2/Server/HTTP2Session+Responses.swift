internal import Bytes
internal import CNghttp2

/// From what a stream sends to nghttp2.
extension HTTP2Session {
    func submitInterim(_ status: UInt16, on stream: HTTP2Stream) {
        guard !isClosed else { return }
        scratch.removeAll()
        scratch.append(decimal: UInt64(status))
        unsafe fieldList.withFields(of: scratch.readable, hasStatus: true) {
            _ = unsafe nghttp2_submit_headers(
                library, UInt8(NGHTTP2_FLAG_NONE.rawValue), stream.id, nil, $0.baseAddress, $0.count, nil)
        }
        scratch.removeAll()
    }

    func submitHead(
        _ status: UInt16, on stream: HTTP2Stream, endsStream: Bool, _ fields: (inout ByteBuffer) -> Void
    ) -> Bool {
        guard !isClosed else { return true }
        defer { scratch.removeAll() }
        scratch.removeAll()
        scratch.append(decimal: UInt64(status))
        fields(&scratch)
        guard !scratch.overflowed else { return false }
        var provider = unsafe nghttp2_data_provider()
        unsafe provider.source.ptr = Unmanaged.passUnretained(stream).toOpaque()
        unsafe provider.read_callback = readContent
        var outcome: Int32 = 0
        unsafe fieldList.withFields(of: scratch.readable, hasStatus: true) { list in
            outcome =
                unsafe endsStream
                ? nghttp2_submit_response(library, stream.id, list.baseAddress, list.count, nil)
                : nghttp2_submit_response(library, stream.id, list.baseAddress, list.count, &provider)
        }
        // Out of memory: the client is not to wait for what never comes.
        if outcome != 0 { submitReset(.internalError, on: stream) }
        return true
    }

    private func submitTrailers(_ stream: HTTP2Stream) {
        unsafe fieldList.withFields(of: stream.trailers.readable, hasStatus: false) {
            _ = unsafe nghttp2_submit_trailer(library, stream.id, $0.baseAddress, $0.count)
        }
        stream.trailers.removeAll()
    }

    /// There is content or the end again.
    func resume(_ stream: HTTP2Stream) {
        guard stream.state.isDeferred, !isClosed else { return }
        stream.state.isDeferred = false
        unsafe nghttp2_session_resume_data(library, stream.id)
    }

    func isWindowOpen(for stream: HTTP2Stream) -> Bool {
        guard !isClosed, stream.isOpen else { return false }
        return unsafe nghttp2_session_get_remote_window_size(library) > 0
            && nghttp2_session_get_stream_remote_window_size(library, stream.id) > 0
    }

    func submitReset(_ code: HTTP2ErrorCode, on stream: HTTP2Stream) {
        stream.state.isReset = true
        stream.state.isListening = false
        guard !isClosed else { return }
        unsafe nghttp2_submit_rst_stream(library, UInt8(NGHTTP2_FLAG_NONE.rawValue), stream.id, code.rawValue)
    }

    /// nghttp2 asks for content to be framed.
    ///
    /// - Returns: how much was written to `room`, or NGHTTP2_ERR_DEFERRED.
    func produce(
        _ stream: HTTP2Stream, _ room: UnsafeMutableBufferPointer<UInt8>, _ flags: inout UInt32
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
            if !stream.trailers.isEmpty {
                flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM.rawValue
                submitTrailers(stream)
            }
            return count
        }
        guard count == 0 else { return count }
        stream.state.isDeferred = true
        return Int(NGHTTP2_ERR_DEFERRED.rawValue)
    }

    // MARK: - What nghttp2 has sent

    func sent(_ frame: SentFrame, on stream: HTTP2Stream?) {
        switch frame {
        case .data: watch.dataSent()
        // Not our word, so the client's doing; so is a stream that was refused before it began.
        case .reset(let code):
            if let stream {
                if !stream.state.isReset { countProvokedReset() }
            } else if code == .refusedStream, !excuseRefusal() {
                countProvokedReset()
            }
        case .goAway(let code): wentAway(code)
        }
    }

    /// Until a client has read our settings it may begin as many streams as it likes, and common ones begin 100 (RFC 9113 section
    /// 6.5.2): so many refusals say nothing of it.
    private func excuseRefusal() -> Bool {
        guard excusedRefusals < limits.excusedRefusals else { return false }
        excusedRefusals += 1
        return true
    }

    /// END_STREAM went out. If the client is still sending, nobody needs that any more (RFC 9113 section 8.1).
    func responseEnded(_ stream: HTTP2Stream) {
        stream.state.responseEnded = true
        guard !stream.state.clientEnded, !stream.state.outlastsResponse else { return }
        guard !stream.state.isFaulted else { return submitReset(.protocolError, on: stream) }
        stream.state.isReset = true
        stream.state.isListening = false
        dismissed.append(UnfinishedRequest(slot: stream.slot, id: stream.id))
    }

    /// Resets what `responseEnded` has left, once the response is out: libcurl 7.88 loses a response that comes in one record of TLS
    /// with the reset, before all of the request was sent. Who has ended the request by then needs none.
    func submitDismissals() {
        for dismissal in dismissed {
            let stream = streams[dismissal.slot]
            guard stream.id == dismissal.id, !stream.state.clientEnded else { continue }
            submitReset(.noError, on: stream)
        }
        dismissed.removeAll(keepingCapacity: true)
    }
}

/// A stream whose response is complete and whose request is not.
struct UnfinishedRequest {
    var slot: Int
    /// The place may be another stream's by then.
    var id: Int32
}

/// What is to be known of a frame that was sent.
enum SentFrame {
    case data, reset(HTTP2ErrorCode), goAway(HTTP2ErrorCode)
}
