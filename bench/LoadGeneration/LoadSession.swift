internal import Bytes
internal import CNghttp2

/// How a stream can end before it is answered.
enum StreamEnd: Equatable {
    /// The server did not look at the request.
    case refused
    case reset(code: UInt32)
    case malformed

    var kind: FailureKind { self == .malformed ? .malformed : .disconnected }

    var text: String {
        switch self {
        case .refused: "the stream was refused"
        case .reset(let code): "the stream was reset with error \(code)"
        case .malformed: "the response is malformed"
        }
    }
}

/// nghttp2 in the client role, and as little around it as load needs. Not the codec that the gateway itself is built of:
/// what both got wrong would not be seen.
///
/// nghttp2 keeps two kinds of pointers: to this object, which owns its session, and to callers, who live as long as the run.
final class LoadSession {
    fileprivate unowned let connection: HTTP2LoadConnection
    private let library: OpaquePointer
    private var fields = FieldBlock()
    private var entries: [nghttp2_nv] = []
    /// A frame that did not fit: nghttp2's memory, until it is asked for the next.
    private var rest = UnsafeBufferPointer<UInt8>(start: nil, count: 0)

    /// Octets that a server may send ahead: no response that is measured waits for a window.
    private static let window: Int32 = 16 << 20

    /// - Parameter connection: owns the session, and receives the outcomes of requests.
    init(of connection: HTTP2LoadConnection) {
        self.connection = connection
        var callbacks: OpaquePointer?
        var session: OpaquePointer?
        guard nghttp2_session_callbacks_new(&callbacks) == 0 else {
            fatalError("out of memory: nghttp2")  // as every other allocation in Swift does
        }
        nghttp2_session_callbacks_set_on_header_callback(callbacks, fieldReceived)
        nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, frameReceived)
        nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, streamClosed)
        nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks, frameNotSent)
        guard nghttp2_session_client_new(&session, callbacks, nil) == 0, let session else {
            fatalError("out of memory: nghttp2")  // likewise
        }
        nghttp2_session_callbacks_del(callbacks)
        library = session
        nghttp2_session_set_user_data(session, Unmanaged.passUnretained(self).toOpaque())
        let settings = [
            nghttp2_settings_entry(settings_id: Int32(NGHTTP2_SETTINGS_ENABLE_PUSH.rawValue), value: 0),
            nghttp2_settings_entry(
                settings_id: Int32(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE.rawValue), value: UInt32(Self.window)),
        ]
        nghttp2_submit_settings(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), settings, settings.count)
        nghttp2_session_set_local_window_size(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), 0, Self.window)
    }

    deinit {
        nghttp2_session_del(library)
    }

    func submit(_ caller: LoadCaller) {
        fields.set(caller.request)
        let context = Unmanaged.passUnretained(caller).toOpaque()
        var provider = nghttp2_data_provider()
        provider.read_callback = contentWanted
        let hasContent = caller.request.content != nil
        fields.withEntries(&entries) { entries in
            // Below 0 when there is no memory or no number left; neither happens to a connection before the server ends it.
            let id =
                hasContent
                ? nghttp2_submit_request(library, nil, entries.baseAddress, entries.count, &provider, context)
                : nghttp2_submit_request(library, nil, entries.baseAddress, entries.count, nil, context)
            precondition(id > 0, "nghttp2 took no request")
        }
    }

    /// - Returns: false if the connection is of no use any more.
    func receive(_ bytes: Span<UInt8>) -> Bool {
        bytes.withUnsafeBufferPointer { nghttp2_session_mem_recv(library, $0.baseAddress, $0.count) } >= 0
    }

    /// Appends what is to be sent, as far as there is room.
    func write(into output: inout ByteBuffer) {
        while output.room > 0 {
            if rest.isEmpty {
                var start: UnsafePointer<UInt8>?
                let length = nghttp2_session_mem_send(library, &start)
                guard length > 0 else { return }
                rest = UnsafeBufferPointer(start: start, count: length)
            }
            let taken = output.appendPrefix(of: rest.span)
            rest = UnsafeBufferPointer(rebasing: rest[taken...])
        }
    }

    // MARK: - What nghttp2 tells

    fileprivate func closed(_ caller: LoadCaller, _ code: UInt32) {
        guard !caller.isUnsent else { return connection.broken(caller, .refused) }
        switch nghttp2_error_code(rawValue: code) {
        // A server that has answered before it has read everything says NO_ERROR (RFC 9113 section 8.1).
        case NGHTTP2_NO_ERROR where caller.status >= 200: connection.answered(caller)
        case NGHTTP2_REFUSED_STREAM: connection.broken(caller, .refused)
        case NGHTTP2_PROTOCOL_ERROR, NGHTTP2_NO_ERROR: connection.broken(caller, .malformed)
        default: connection.broken(caller, .reset(code: code))
        }
    }

}

// MARK: - Callbacks, all within a call of the session's methods

private func owner(_ user: UnsafeMutableRawPointer?) -> LoadSession {
    guard let user else { preconditionFailure("nghttp2 was given its session") }
    return Unmanaged<LoadSession>.fromOpaque(user).takeUnretainedValue()
}

/// The user data of every stream.
private func caller(_ session: OpaquePointer?, _ id: Int32) -> LoadCaller? {
    guard let user = nghttp2_session_get_stream_user_data(session, id) else { return nil }
    return Unmanaged<LoadCaller>.fromOpaque(user).takeUnretainedValue()
}

private nonisolated func fieldReceived(
    _ session: OpaquePointer?, _ frame: UnsafePointer<nghttp2_frame>?, _ name: UnsafePointer<UInt8>?, _ nameLength: Int,
    _ value: UnsafePointer<UInt8>?, _ valueLength: Int, _: UInt8, _ user: UnsafeMutableRawPointer?
) -> Int32 {
    guard let frame, let name, let value else { return 0 }
    // The first octet tells most of them apart.
    if nameLength == 7, name[0] == UInt8(ascii: ":") {
        // nghttp2 has seen to it that it is `:status`, and three digits.
        caller(session, frame.pointee.hd.stream_id)?.status = (0..<3).reduce(0) { $0 * 10 + UInt16(value[$1] & 15) }
    } else if nameLength == 16, name[0] == UInt8(ascii: "a") {
        let name = String(decoding: UnsafeBufferPointer(start: name, count: nameLength), as: UTF8.self)
        guard name == "accept-signature", let caller = caller(session, frame.pointee.hd.stream_id) else { return 0 }
        owner(user).connection.brings(
            challenge: String(decoding: UnsafeBufferPointer(start: value, count: valueLength), as: UTF8.self),
            status: caller.status)
    }
    return 0
}

private nonisolated func frameReceived(
    _: OpaquePointer?, _ frame: UnsafePointer<nghttp2_frame>?, _ user: UnsafeMutableRawPointer?
) -> Int32 {
    if let frame, UInt32(frame.pointee.hd.type) == NGHTTP2_GOAWAY.rawValue { owner(user).connection.goesAway() }
    return 0
}

private nonisolated func streamClosed(
    _ session: OpaquePointer?, _ id: Int32, _ code: UInt32, _ user: UnsafeMutableRawPointer?
) -> Int32 {
    if let caller = caller(session, id) { owner(user).closed(caller, code) }
    return 0
}

private nonisolated func frameNotSent(
    _ session: OpaquePointer?, _ frame: UnsafePointer<nghttp2_frame>?, _: Int32, _: UnsafeMutableRawPointer?
) -> Int32 {
    // The server has said meanwhile that it wants no more. The stream is closed next.
    if let frame, UInt32(frame.pointee.hd.type) == NGHTTP2_HEADERS.rawValue {
        caller(session, frame.pointee.hd.stream_id)?.isUnsent = true
    }
    return 0
}

/// The next part of a request's content.
private nonisolated func contentWanted(
    _ session: OpaquePointer?, _ id: Int32, _ room: UnsafeMutablePointer<UInt8>?, _ length: Int,
    _ flags: UnsafeMutablePointer<UInt32>?, _: UnsafeMutablePointer<nghttp2_data_source>?, _: UnsafeMutableRawPointer?
) -> Int {
    guard let flags, let caller = caller(session, id), let content = caller.request.content else {
        return Int(NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue)
    }
    let count = min(length, content.count - caller.framed)
    let room = UnsafeMutableBufferPointer(start: room, count: length)
    _ = room.update(fromContentsOf: content[caller.framed..<caller.framed + count])
    caller.framed += count
    if caller.framed == content.count { flags.pointee |= NGHTTP2_DATA_FLAG_EOF.rawValue }
    return count
}
