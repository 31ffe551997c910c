internal import Bytes
internal import CNghttp2

// nghttp2's callbacks in the server role. The last argument of each is the `HTTP2Session` that is running. The user
// data of a stream is the `HTTP2Stream` that the session keeps. After a fault nothing is reported any more: nghttp2 may
// continue for a while.

enum ServerCallbacks {
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

private func owner(_ user: UnsafeMutableRawPointer?) -> HTTP2Session {
    guard let user = unsafe user else { preconditionFailure("nghttp2 was given its session") }
    return unsafe Unmanaged<HTTP2Session>.fromOpaque(user).takeUnretainedValue()
}

private func stream(_ session: OpaquePointer?, _ id: Int32) -> HTTP2Stream? {
    guard let user = unsafe nghttp2_session_get_stream_user_data(session, id) else { return nil }
    return unsafe Unmanaged<HTTP2Stream>.fromOpaque(user).takeUnretainedValue()
}

private func beginHeaders(
    _ session: OpaquePointer?, _ frame: UnsafePointer<nghttp2_frame>?, _ user: UnsafeMutableRawPointer?
) -> Int32 {
    let owner = unsafe owner(user)
    guard owner.reason == nil, let frame = unsafe frame?.pointee else { return 0 }
    let id = unsafe frame.hd.stream_id
    if unsafe frame.headers.cat == NGHTTP2_HCAT_REQUEST {
        let stream = owner.begin(id)
        unsafe nghttp2_session_set_stream_user_data(session, id, Unmanaged.passUnretained(stream).toOpaque())
        owner.incompleteHead = stream
    } else {
        owner.incompleteHead = unsafe stream(session, id)
        owner.incoming.begin(trailers: true)
    }
    return 0
}

private func receiveHeader(
    _ session: OpaquePointer?, _ frame: UnsafePointer<nghttp2_frame>?, _ name: UnsafePointer<UInt8>?, _ nameLength: Int,
    _ value: UnsafePointer<UInt8>?, _ valueLength: Int, _ flags: UInt8, _ user: UnsafeMutableRawPointer?
) -> Int32 {
    let owner = unsafe owner(user)
    // `beginHeaders` has set the stream that these fields belong to.
    guard owner.reason == nil else { return 0 }
    let name = unsafe UnsafeBufferPointer(start: name, count: nameLength)
    let value = unsafe UnsafeBufferPointer(start: value, count: valueLength)
    if unsafe !owner.incoming.take(name.span, value.span) { owner.headTooLong() }
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
        owner.incompleteHead = nil
        guard let stream = unsafe stream(session, header.stream_id) else { return 0 }
        let endsStream = has(NGHTTP2_FLAG_END_STREAM, header.flags)
        if unsafe frame.headers.cat == NGHTTP2_HCAT_REQUEST {
            owner.headEnded(stream, endsStream: endsStream)
        } else {
            owner.trailersEnded(stream, endsStream: endsStream)
        }
    case NGHTTP2_DATA.rawValue:
        guard has(NGHTTP2_FLAG_END_STREAM, header.flags) else {
            // Empty frames were counted by their header.
            if header.length > 0 { owner.reportedData += 1 }
            if header.length > 0, unsafe header.length == frame.data.padlen { owner.countPaddingAlone() }
            return 0
        }
        owner.reportedData += 1
        if let stream = unsafe stream(session, header.stream_id) { owner.clientEnded(stream) }
    case NGHTTP2_SETTINGS.rawValue:
        if has(NGHTTP2_FLAG_ACK, header.flags) { owner.isAcknowledged = true }
    case NGHTTP2_GOAWAY.rawValue:
        owner.handler.clientGoesAway(HTTP2ErrorCode(sent: unsafe frame.goaway.error_code))
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
    unsafe owner.arrived(UnsafeBufferPointer(start: data, count: length).span, on: stream)
    return 0
}

private func closeStream(
    _ session: OpaquePointer?, _ id: Int32, _ code: UInt32, _ user: UnsafeMutableRawPointer?
) -> Int32 {
    if let stream = unsafe stream(session, id) {
        unsafe owner(user).finish(stream, HTTP2ErrorCode(sent: code))
        unsafe nghttp2_session_set_stream_user_data(session, id, nil)
    }
    return 0
}

private func frameSent(
    _ session: OpaquePointer?, _ frame: UnsafePointer<nghttp2_frame>?, _ user: UnsafeMutableRawPointer?
) -> Int32 {
    guard let frame = unsafe frame?.pointee else { return 0 }
    let owner = unsafe owner(user)
    let header = unsafe frame.hd
    let stream = unsafe stream(session, header.stream_id)
    switch UInt32(header.type) {
    case NGHTTP2_DATA.rawValue: owner.sent(.data, on: stream)
    case NGHTTP2_RST_STREAM.rawValue:
        owner.sent(.reset(HTTP2ErrorCode(sent: unsafe frame.rst_stream.error_code)), on: stream)
    case NGHTTP2_GOAWAY.rawValue:
        owner.sent(.goAway(HTTP2ErrorCode(sent: unsafe frame.goaway.error_code)), on: nil)
    default: break
    }
    switch UInt32(header.type) {
    case NGHTTP2_DATA.rawValue, NGHTTP2_HEADERS.rawValue:
        if has(NGHTTP2_FLAG_END_STREAM, header.flags), let stream { owner.responseEnded(stream) }
    default: break
    }
    return 0
}

private func frameNotSent(
    _ session: OpaquePointer?, _ frame: UnsafePointer<nghttp2_frame>?, _ error: Int32,
    _ user: UnsafeMutableRawPointer?
) -> Int32 {
    // If a head cannot be sent, nothing else of the response may be.
    if let frame = unsafe frame, unsafe UInt32(frame.pointee.hd.type) == NGHTTP2_HEADERS.rawValue,
        let stream = unsafe stream(session, frame.pointee.hd.stream_id)
    {
        stream.reset(.internalError)
    }
    return 0
}

/// Reads content for a response; the data provider of every response. Its source is the stream.
func readContent(
    _ session: OpaquePointer?, _ id: Int32, _ room: UnsafeMutablePointer<UInt8>?, _ length: Int,
    _ flags: UnsafeMutablePointer<UInt32>?, _ source: UnsafeMutablePointer<nghttp2_data_source>?,
    _ user: UnsafeMutableRawPointer?
) -> Int {
    guard let flags = unsafe flags, let stream = unsafe stream(session, id) else {
        return Int(NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue)
    }
    return unsafe owner(user).produce(stream, UnsafeMutableBufferPointer(start: room, count: length), &flags.pointee)
}
