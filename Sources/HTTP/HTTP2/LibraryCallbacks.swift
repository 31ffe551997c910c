internal import Bytes
internal import CNghttp2

// The bridge from nghttp2's callbacks to the events of `HTTP2Framing`, in both roles. The last argument of each callback
// is the session that is running. After a fault, only the ends of streams and sent frames are reported: nghttp2 may
// continue for a while.

enum LibraryCallbacks {
    static func set(_ callbacks: OpaquePointer?) {
        unsafe nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, beginHeaders)
        unsafe nghttp2_session_callbacks_set_on_header_callback(callbacks, receiveHeader)
        unsafe nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, receiveFrame)
        unsafe nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, receiveContent)
        unsafe nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, closeStream)
        unsafe nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, frameSent)
        unsafe nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks, frameNotSent)
    }
}

/// Runs `body` with the session, which is not retained: a head has a callback for each field.
@inline(__always)
private func with<Result>(_ user: UnsafeMutableRawPointer?, _ body: (HTTP2Framing) -> Result) -> Result {
    guard let user = unsafe user else { preconditionFailure("nghttp2 was given its session") }
    return unsafe Unmanaged<HTTP2Framing>.fromOpaque(user)._withUnsafeGuaranteedRef { body($0) }
}

private func beginHeaders(
    _ session: OpaquePointer?, _ frame: UnsafePointer<nghttp2_frame>?, _ user: UnsafeMutableRawPointer?
) -> Int32 {
    guard let frame = unsafe frame?.pointee else { return 0 }
    let id = unsafe frame.hd.stream_id
    let opensStream = unsafe frame.headers.cat == NGHTTP2_HCAT_REQUEST
    unsafe with(user) { owner in
        if owner.fault == nil { owner.blockBegan(id, opensStream: opensStream) }
    }
    return 0
}

private func receiveHeader(
    _ session: OpaquePointer?, _ frame: UnsafePointer<nghttp2_frame>?, _ name: UnsafePointer<UInt8>?, _ nameLength: Int,
    _ value: UnsafePointer<UInt8>?, _ valueLength: Int, _ flags: UInt8, _ user: UnsafeMutableRawPointer?
) -> Int32 {
    guard let id = unsafe frame?.pointee.hd.stream_id else { return 0 }
    let name = unsafe UnsafeBufferPointer(start: name, count: nameLength)
    let value = unsafe UnsafeBufferPointer(start: value, count: valueLength)
    unsafe with(user) { owner in
        if owner.fault == nil { unsafe owner.fieldCame(name.span, value.span, on: id) }
    }
    return 0
}

private func receiveFrame(
    _ session: OpaquePointer?, _ frame: UnsafePointer<nghttp2_frame>?, _ user: UnsafeMutableRawPointer?
) -> Int32 {
    guard let frame = unsafe frame?.pointee else { return 0 }
    unsafe with(user) { owner in
        guard owner.fault == nil else { return }
        let header = unsafe frame.hd
        let endsStream = has(NGHTTP2_FLAG_END_STREAM, header.flags)
        switch UInt32(header.type) {
        case NGHTTP2_HEADERS.rawValue:
            let opensStream = unsafe frame.headers.cat == NGHTTP2_HCAT_REQUEST
            owner.blockEnded(header.stream_id, opensStream: opensStream, endsStream: endsStream)
        case NGHTTP2_DATA.rawValue:
            // Other empty frames were counted by their header.
            if endsStream || header.length > 0 { owner.reportedData += 1 }
            if endsStream {
                owner.peerEnded(header.stream_id)
            } else if header.length > 0, unsafe header.length == frame.data.padlen {
                owner.countPaddingAlone()
            }
        case NGHTTP2_SETTINGS.rawValue:
            if has(NGHTTP2_FLAG_ACK, header.flags) { owner.isAcknowledged = true } else { owner.settingsCame() }
        case NGHTTP2_PING.rawValue:
            if has(NGHTTP2_FLAG_ACK, header.flags) { owner.pingAnswered() }
        case NGHTTP2_GOAWAY.rawValue:
            let goAway = unsafe frame.goaway
            unsafe owner.peerGoesAway(HTTP2ErrorCode(sent: goAway.error_code), last: goAway.last_stream_id)
        default: break
        }
    }
    return 0
}

private func receiveContent(
    _ session: OpaquePointer?, _ flags: UInt8, _ id: Int32, _ data: UnsafePointer<UInt8>?, _ length: Int,
    _ user: UnsafeMutableRawPointer?
) -> Int32 {
    let content = unsafe UnsafeBufferPointer(start: data, count: length)
    unsafe with(user) { owner in
        if owner.fault == nil { unsafe owner.contentCame(content.span, on: id) }
    }
    return 0
}

private func closeStream(
    _ session: OpaquePointer?, _ id: Int32, _ code: UInt32, _ user: UnsafeMutableRawPointer?
) -> Int32 {
    unsafe with(user) { $0.streamClosed(id, HTTP2ErrorCode(sent: code)) }
    return 0
}

private func frameSent(
    _ session: OpaquePointer?, _ frame: UnsafePointer<nghttp2_frame>?, _ user: UnsafeMutableRawPointer?
) -> Int32 {
    guard let frame = unsafe frame?.pointee else { return 0 }
    unsafe with(user) { owner in
        let header = unsafe frame.hd
        switch UInt32(header.type) {
        case NGHTTP2_HEADERS.rawValue: owner.headSent(on: header.stream_id)
        case NGHTTP2_DATA.rawValue: owner.watch.dataSent()
        case NGHTTP2_RST_STREAM.rawValue:
            owner.resetSent(HTTP2ErrorCode(sent: unsafe frame.rst_stream.error_code), on: header.stream_id)
            return
        case NGHTTP2_GOAWAY.rawValue: return owner.wentAway(HTTP2ErrorCode(sent: unsafe frame.goaway.error_code))
        default: return
        }
        if has(NGHTTP2_FLAG_END_STREAM, header.flags) { owner.endSent(on: header.stream_id) }
    }
    return 0
}

private func frameNotSent(
    _ session: OpaquePointer?, _ frame: UnsafePointer<nghttp2_frame>?, _ error: Int32,
    _ user: UnsafeMutableRawPointer?
) -> Int32 {
    guard let header = unsafe frame?.pointee.hd, UInt32(header.type) == NGHTTP2_HEADERS.rawValue else { return 0 }
    unsafe with(user) { $0.headNotSent(on: header.stream_id) }
    return 0
}

/// Reads content for a message; the data provider of every request and response.
func readContent(
    _ session: OpaquePointer?, _ id: Int32, _ room: UnsafeMutablePointer<UInt8>?, _ length: Int,
    _ flags: UnsafeMutablePointer<UInt32>?, _ source: UnsafeMutablePointer<nghttp2_data_source>?,
    _ user: UnsafeMutableRawPointer?
) -> Int {
    guard let flags = unsafe flags else { return Int(NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue) }
    let room = unsafe UnsafeMutableBufferPointer(start: room, count: length)
    return unsafe with(user) { unsafe $0.produce(on: id, room, &flags.pointee) }
}
