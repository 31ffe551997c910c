internal import CNghttp2

/// How nghttp2 is set up for a connection.
enum LibrarySetup {
    /// - Parameter memory: outlives the session.
    static func makeSession(_ limits: HTTP2Limits, _ role: HTTP2Role, _ memory: FrameMemory) -> OpaquePointer {
        var functions = unsafe memory.functions
        var callbacks: OpaquePointer?
        var options: OpaquePointer?
        var session: OpaquePointer?
        guard unsafe nghttp2_session_callbacks_new(&callbacks) == 0, unsafe nghttp2_option_new(&options) == 0 else {
            fatalError("out of memory: nghttp2")  // as every other allocation in Swift does
        }
        defer {
            unsafe nghttp2_session_callbacks_del(callbacks)
            unsafe nghttp2_option_del(options)
        }
        switch role {
        case .server: unsafe setCallbacks(callbacks)
        case .client: unsafe setClientCallbacks(callbacks)
        }
        // Windows open when content has been used, not when it has come.
        unsafe nghttp2_option_set_no_auto_window_update(options, 1)
        // Messages are judged by `RequestBlock` and `ResponseBlock`.
        unsafe nghttp2_option_set_no_http_messaging(options, 1)
        unsafe nghttp2_option_set_no_closed_streams(options, 1)
        unsafe nghttp2_option_set_max_settings(options, limits.settingsEntries)
        unsafe nghttp2_option_set_max_outbound_ack(options, limits.outboundFrames)
        // `FrameWatch` counts resets, by the caller's clock, and CONTINUATION frames: nghttp2 counts the reads that their
        // headers come in, so one that comes octet by octet would be too many.
        unsafe nghttp2_option_set_max_continuations(options, 1 << 32)
        unsafe nghttp2_option_set_stream_reset_rate_limit(options, 1 << 32, 1 << 32)
        unsafe nghttp2_option_set_max_deflate_dynamic_table_size(options, limits.headerTable)
        let outcome =
            switch role {
            case .server: unsafe nghttp2_session_server_new3(&session, callbacks, nil, options, &functions)
            case .client: unsafe nghttp2_session_client_new3(&session, callbacks, nil, options, &functions)
            }
        guard outcome == 0, let session = unsafe session else { fatalError("out of memory: nghttp2") }  // likewise
        return unsafe session
    }

    /// The session refers to `owner`, which owns it.
    static func attach(_ owner: AnyObject, to session: OpaquePointer) {
        unsafe nghttp2_session_set_user_data(session, Unmanaged.passUnretained(owner).toOpaque())
    }

    /// The settings are the first that the peer gets (RFC 9113 section 3.4).
    static func submitSettings(_ limits: HTTP2Limits, _ role: HTTP2Role, _ session: OpaquePointer) {
        var entries: [nghttp2_settings_entry] = []
        func set(_ id: nghttp2_settings_id, _ value: Int) {
            entries.append(nghttp2_settings_entry(settings_id: Int32(id.rawValue), value: UInt32(value)))
        }
        switch role {
        case .server: set(NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, limits.concurrentStreams)
        // Nobody is to send what was not asked for.
        case .client: set(NGHTTP2_SETTINGS_ENABLE_PUSH, 0)
        }
        set(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, limits.streamWindow)
        set(NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, limits.headerList)
        set(NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, limits.headerTable)
        // RFC 9218 section 2.1: priorities mean nothing here.
        set(NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1)
        if limits.extendedConnect { set(NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 1) }
        unsafe nghttp2_submit_settings(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), entries, entries.count)
        unsafe nghttp2_session_set_local_window_size(
            session, UInt8(NGHTTP2_FLAG_NONE.rawValue), 0, Int32(limits.connectionWindow))
    }
}

/// Whether a frame has a flag.
func has(_ flag: nghttp2_flag, _ flags: UInt8) -> Bool { UInt32(flags) & flag.rawValue != 0 }

/// Which end of a connection we are.
enum HTTP2Role {
    case server, client
}
