internal import Bytes
internal import CNghttp2

// nghttp2's callbacks in the client role. The last argument of each is the `HTTP2ClientSession` that is running. The
// user data of a stream is the `HTTP2ClientStream` that the session keeps. After a fault, only the end of streams is
// reported: nghttp2 may continue for a while.

enum ClientCallbacks {
    static func set(_ callbacks: OpaquePointer?) {
        unsafe nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, beginHeaders)
        unsafe nghttp2_session_callbacks_set_on_header_callback(callbacks, receiveHeader)
        unsafe nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, receiveFrame)
        unsafe nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, receiveContent)
        unsafe nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, closeStream)
        unsafe nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, frameSent)
    }
}

private func owner(_ user: UnsafeMutableRawPointer?) -> HTTP2ClientSession {
    guard let user = unsafe user else { preconditionFailure("nghttp2 was given its session") }
    return unsafe Unmanaged<HTTP2ClientSession>.fromOpaque(user).takeUnretainedValue()
}

private func stream(_ session: OpaquePointer?, _ id: Int32) -> HTTP2ClientStream? {
    guard let user = unsafe nghttp2_session_get_stream_user_data(session, id) else { return nil }
    return unsafe Unmanaged<HTTP2ClientStream>.fromOpaque(user).takeUnretainedValue()
}

private func beginHeaders(
    _ session: OpaquePointer?, _ frame: UnsafePointer<nghttp2_frame>?, _ user: UnsafeMutableRawPointer?
) -> Int32 {
    let owner = unsafe owner(user)
    guard owner.reason == nil, let frame = unsafe frame, let stream = unsafe stream(session, frame.pointee.hd.stream_id)
    else { return 0 }
    owner.blockBegan(stream)
    return 0
}

private func receiveHeader(
    _ session: OpaquePointer?, _ frame: UnsafePointer<nghttp2_frame>?, _ name: UnsafePointer<UInt8>?, _ nameLength: Int,
    _ value: UnsafePointer<UInt8>?, _ valueLength: Int, _ flags: UInt8, _ user: UnsafeMutableRawPointer?
) -> Int32 {
    let owner = unsafe owner(user)
    guard owner.reason == nil, let frame = unsafe frame, let stream = unsafe stream(session, frame.pointee.hd.stream_id)
    else { return 0 }
    let name = unsafe UnsafeBufferPointer(start: name, count: nameLength)
    let value = unsafe UnsafeBufferPointer(start: value, count: valueLength)
    unsafe owner.fieldCame(name.span, value.span, for: stream)
    return 0
}

private func receiveFrame(
    _ session: OpaquePointer?, _ frame: UnsafePointer<nghttp2_frame>?, _ user: UnsafeMutableRawPointer?
) -> Int32 {
    let owner = unsafe owner(user)
    guard owner.reason == nil, let frame = unsafe frame?.pointee else { return 0 }
    let header = unsafe frame.hd
    switch UInt32(header.type) {
    case NGHTTP2_HEADERS.rawValue:
        guard let stream = unsafe stream(session, header.stream_id) else { return 0 }
        owner.blockEnded(stream, endsStream: has(NGHTTP2_FLAG_END_STREAM, header.flags))
    case NGHTTP2_DATA.rawValue:
        guard has(NGHTTP2_FLAG_END_STREAM, header.flags) else {
            if header.length > 0, unsafe header.length == frame.data.padlen { owner.countPaddingAlone() }
            return 0
        }
        if let stream = unsafe stream(session, header.stream_id) { owner.serverEnded(stream) }
    case NGHTTP2_SETTINGS.rawValue:
        if has(NGHTTP2_FLAG_ACK, header.flags) {
            owner.isAcknowledged = true
        } else {
            owner.isGreeted = true
            owner.handler.capacityChanged()
        }
    case NGHTTP2_PING.rawValue:
        if has(NGHTTP2_FLAG_ACK, header.flags) { owner.handler.pingAnswered() }
    case NGHTTP2_GOAWAY.rawValue:
        owner.serverGoesAway(
            HTTP2ErrorCode(sent: unsafe frame.goaway.error_code), last: unsafe frame.goaway.last_stream_id)
    default: break
    }
    return 0
}

private func receiveContent(
    _ session: OpaquePointer?, _ flags: UInt8, _ id: Int32, _ data: UnsafePointer<UInt8>?, _ length: Int,
    _ user: UnsafeMutableRawPointer?
) -> Int32 {
    let owner = unsafe owner(user)
    guard owner.reason == nil, let stream = unsafe stream(session, id) else { return 0 }
    unsafe owner.contentCame(UnsafeBufferPointer(start: data, count: length).span, on: stream)
    return 0
}

private func closeStream(
    _ session: OpaquePointer?, _ id: Int32, _ code: UInt32, _ user: UnsafeMutableRawPointer?
) -> Int32 {
    if let stream = unsafe stream(session, id) {
        unsafe nghttp2_session_set_stream_user_data(session, id, nil)
        unsafe owner(user).wireClosed(stream, HTTP2ErrorCode(sent: code))
    }
    return 0
}

private func frameSent(
    _ session: OpaquePointer?, _ frame: UnsafePointer<nghttp2_frame>?, _ user: UnsafeMutableRawPointer?
) -> Int32 {
    guard let frame = unsafe frame?.pointee else { return 0 }
    let owner = unsafe owner(user)
    let header = unsafe frame.hd
    switch UInt32(header.type) {
    case NGHTTP2_HEADERS.rawValue: owner.headFramed = unsafe stream(session, header.stream_id)
    case NGHTTP2_DATA.rawValue: owner.watch.dataSent()
    case NGHTTP2_GOAWAY.rawValue: owner.wentAway(HTTP2ErrorCode(sent: unsafe frame.goaway.error_code))
    default: break
    }
    switch UInt32(header.type) {
    case NGHTTP2_DATA.rawValue, NGHTTP2_HEADERS.rawValue:
        guard has(NGHTTP2_FLAG_END_STREAM, header.flags), let stream = unsafe stream(session, header.stream_id) else {
            break
        }
        stream.state.requestEnded = true
    default: break
    }
    return 0
}

/// Reads content for a request; the data provider of every request.
func readRequestContent(
    _ session: OpaquePointer?, _ id: Int32, _ room: UnsafeMutablePointer<UInt8>?, _ length: Int,
    _ flags: UnsafeMutablePointer<UInt32>?, _ source: UnsafeMutablePointer<nghttp2_data_source>?,
    _ user: UnsafeMutableRawPointer?
) -> Int {
    guard let flags = unsafe flags, let stream = unsafe stream(session, id) else {
        return Int(NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue)
    }
    return unsafe owner(user).produce(stream, UnsafeMutableBufferPointer(start: room, count: length), &flags.pointee)
}
