public import EventLoop

/// What one connection of HTTP/2 may take up, and how often a client may do what costs us more than it.
///
/// The memory of a connection is bounded by them: for each of `concurrentStreams` a head and an output block, for all of
/// them together `connectionWindow` of content, two header tables, and `outboundFrames` small frames.
public struct HTTP2Limits: Sendable {
    /// Streams that are open at once (SETTINGS_MAX_CONCURRENT_STREAMS).
    public var concurrentStreams = 100
    /// Octets of a request's fields, 32 more for each field (SETTINGS_MAX_HEADER_LIST_SIZE); at most 65,535. A request
    /// beyond it is `headTooLarge`; one that decodes to four times as much ends the connection.
    public var headerList = 16 * 1024
    /// Octets of the table that a client compresses its fields with, and of ours (SETTINGS_HEADER_TABLE_SIZE).
    public var headerTable = 4096
    /// Requests that wait for the end of their stream before anybody sees them: Content-Length is 0, and END_STREAM did not come with it.
    public var heldRequests = 16
    /// Octets of content that a client may send ahead on one stream (SETTINGS_INITIAL_WINDOW_SIZE), and on all of them;
    /// the latter at least 65,535, with which a connection begins (RFC 9113 section 6.9.2).
    public var streamWindow = 32 * 1024
    public var connectionWindow = 256 * 1024
    /// Entries of one SETTINGS frame.
    public var settingsEntries = 32
    /// CONTINUATION frames behind one HEADERS frame, and octets of the block before it is decoded.
    public var continuations = 8
    public var headerBlock = 64 * 1024
    /// Frames that wait for a client to read: acknowledgements, resets, windows.
    public var outboundFrames = 500
    /// WINDOW_UPDATE frames that each DATA frame sent entitles to, beyond their rate.
    public var windowUpdatesPerData = 8
    /// Whether a CONNECT may ask for a WebSocket (RFC 8441; SETTINGS_ENABLE_CONNECT_PROTOCOL).
    public var extendedConnect = false

    /// SETTINGS frames, acknowledgements included.
    public var settings = Rate(1, per: .seconds(1), burst: 20)
    /// PING frames, acknowledgements included.
    public var pings = Rate(10, per: .seconds(1), burst: 100)
    /// Streams that the client resets: each has cost a request, and the client nothing (CVE-2023-44487).
    public var resets = Rate(20, per: .seconds(1), burst: 200)
    /// Streams beyond `concurrentStreams` on one connection that are refused and no more.
    public var excusedRefusals = 100
    /// Streams that the client makes us reset, malformed requests included (CVE-2025-8671).
    public var provokedResets = Rate(2, per: .seconds(1), burst: 40)
    /// DATA without content, CONTINUATION without fields, fields of streams that are no longer there.
    public var emptyFrames = Rate(10, per: .seconds(1), burst: 100)
    /// PRIORITY frames. They mean nothing (RFC 9113 section 5.3.2).
    public var priorities = Rate(10, per: .seconds(1), burst: 200)
    public var windowUpdates = Rate(50, per: .seconds(1), burst: 500)
    /// Frames of unknown types, which are read over (RFC 9113 section 5.5); ALTSVC, ORIGIN and GOAWAY as well.
    public var otherFrames = Rate(10, per: .seconds(1), burst: 100)

    public init() {}
}

extension HTTP2Limits {
    /// Of a connection to a server. All its streams together may send ahead as much as each of them: so one whose content nobody takes
    /// keeps no other waiting, and what waits is bounded all the same.
    public static func client(concurrentStreams: Int = 100, streamWindow: Int = 64 * 1024) -> HTTP2Limits {
        var limits = HTTP2Limits()
        limits.concurrentStreams = concurrentStreams
        limits.streamWindow = streamWindow
        limits.connectionWindow = max(65_535, concurrentStreams * streamWindow)
        return limits
    }
}
