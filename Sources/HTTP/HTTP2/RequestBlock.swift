internal import Bytes

/// A parser of the fields of HTTP/2 requests, which makes a head in the form of HTTP/1.1's parser. So routes, proofs
/// and forwarding do not depend on the version. It is as strict, by RFC 9113 section 8.
///
/// One value serves all requests of a connection, since their blocks come one after the other (section 4.3).
struct RequestBlock: ~Copyable {
    private enum State {
        case head
        case trailers
        /// Further fields are only counted.
        case faulted(MessageFault)
    }

    /// What was read of a head.
    private struct HeadProgress {
        var seen: Seen = []
        var target = ByteRange.empty
        var meanings = RequestFields()
    }

    private struct Seen: OptionSet {
        let rawValue: UInt8

        static let method = Seen(rawValue: 1)
        /// The method is CONNECT.
        static let connect = Seen(rawValue: 2)
        static let scheme = Seen(rawValue: 4)
        static let authority = Seen(rawValue: 8)
        static let path = Seen(rawValue: 16)
        static let protocolName = Seen(rawValue: 32)
        /// A field that is no pseudo-header field.
        static let field = Seen(rawValue: 64)
        static let host = Seen(rawValue: 128)
    }

    private let heads: HeadLimits
    private let listLimit: Int
    private let extendedConnect: Bool
    private let table = FieldNameTable.shared
    /// The pieces of Cookie, joined.
    private var cookies: ByteBuffer

    private var state = State.head
    /// The decoded bytes of the block, as SETTINGS_MAX_HEADER_LIST_SIZE counts them.
    private(set) var size = 0
    /// Beside the state, so that no field copies it.
    private var progress = HeadProgress()

    init(heads: HeadLimits, limits: HTTP2Limits, pool: BufferPool) {
        self.heads = heads
        listLimit = limits.headerList
        extendedConnect = limits.extendedConnect
        cookies = ByteBuffer(pool: pool)
    }

    mutating func begin(trailers: Bool) {
        cookies.removeAll()
        state = trailers ? .trailers : .head
        size = 0
        progress = HeadProgress()
    }

    /// Reads a field.
    ///
    /// - Parameters:
    ///   - head: the head of the request. Trailers do not change it.
    ///   - bytes: the buffer to which its ranges refer, and which is appended to.
    mutating func take(
        _ name: Span<UInt8>, _ value: Span<UInt8>, into head: inout RequestHead, _ bytes: inout ByteBuffer
    ) {
        // RFC 9113 section 6.5.2.
        size += name.count + value.count + 32
        do throws(MessageFault) {
            switch state {
            case .head:
                guard size <= listLimit else { throw .headTooLarge }
                try read(name, value, &head, &bytes)
            case .trailers:
                guard size <= ContentDecoder.trailerLimit else { throw .trailerTooLarge }
                try checkTrailer(name, value)
            case .faulted: break
            }
        } catch {
            state = .faulted(error)
        }
    }

    /// Completes the trailers.
    func finishTrailers(endsStream: Bool) throws(MessageFault) {
        if case .faulted(let fault) = state { throw fault }
        guard endsStream else { throw .trailersUnended }
    }

    /// Completes the head.
    ///
    /// - Returns: Content-Length. Nil if there is none.
    mutating func finish(
        _ head: inout RequestHead, _ bytes: inout ByteBuffer, endsStream: Bool
    ) throws(MessageFault) -> UInt64? {
        if case .faulted(let fault) = state { throw fault }
        try checkPseudoFields(&head)
        guard !progress.seen.isDisjoint(with: [.host, .authority]) else { throw .hostMissing }
        if !cookies.isEmpty { try appendCookies(&head, &bytes) }
        try head.take(target: progress.target, bytes.readable, admitting: heads.targetForms)
        head.version = .http2
        let length = progress.meanings.framing.contentLength
        if progress.seen.contains(.connect) {
            // The rest of the stream belongs to the tunnel: the request has no content and thus no length (RFC 9110
            // section 9.3.6).
            guard length == nil, !endsStream else { throw .contentUnexpected }
            head.framing = .none
        } else if endsStream {
            guard length ?? 0 == 0 else { throw .contentLengthDisagrees }
            head.framing = .none
        } else {
            head.framing = try progress.meanings.framing.framing(minorVersion: 1) ?? .chunked
        }
        if !head.framing.hasContent { head.expectsContinue = false }
        return length
    }

    // MARK: - Pseudo-header fields (RFC 9113 section 8.3)

    private mutating func mark(_ field: Seen) throws(MessageFault) {
        guard progress.seen.isDisjoint(with: field) else { throw .pseudoFieldRepeated }
        progress.seen.formUnion(field)
    }

    private mutating func readPseudo(
        _ name: Span<UInt8>, _ value: Span<UInt8>, _ head: inout RequestHead, _ bytes: inout ByteBuffer
    ) throws(MessageFault) {
        guard !progress.seen.contains(.field) else { throw .pseudoFieldLate }
        // By length first: it distinguishes nearly all of them.
        switch name.count {
        case 5 where name.isEqual(to: Self.path.span):
            try mark(.path)
            guard value.count <= heads.target else { throw .targetTooLong }
            progress.target = try append(value, to: &bytes)
        case 7 where name.isEqual(to: Self.method.span):
            try mark(.method)
            guard value.count > 0 else { throw .requestLineMalformed }
            for index in value.indices where !ByteClass.isToken(value[index]) { throw .requestLineMalformed }
            if value.equals(Self.connect.span) { progress.seen.formUnion(.connect) }
            head.method = Method(value)
        case 7 where name.isEqual(to: Self.scheme.span):
            try mark(.scheme)
            guard value.equals(Self.https.span) else { throw .schemeUnsupported }
        case 9 where extendedConnect && name.isEqual(to: Self.protocolName.span):
            try mark(.protocolName)
            guard value.equals(Self.websocket.span) else { throw .connectUnsupported }
        case 10 where name.isEqual(to: Self.authority.span):
            try mark(.authority)
            try readAuthority(value, &head, &bytes)
        default: throw .pseudoFieldUnknown
        }
    }

    /// Checks the pseudo-header fields of a request (RFC 9113 section 8.3.1), or of a CONNECT that opens a WebSocket
    /// (RFC 8441 section 4).
    private func checkPseudoFields(_ head: inout RequestHead) throws(MessageFault) {
        if progress.seen.contains(.connect) {
            guard progress.seen.contains(.protocolName) else { throw .connectUnsupported }
            head.opensWebSocket = true
        } else if progress.seen.contains(.protocolName) {
            throw .pseudoFieldUnknown
        }
        guard progress.seen.isSuperset(of: [.method, .scheme, .path]) else { throw .pseudoFieldMissing }
    }

    private func readAuthority(
        _ value: Span<UInt8>, _ head: inout RequestHead, _ bytes: inout ByteBuffer
    ) throws(MessageFault) {
        let (length, port) = try Authority.parse(value)
        head.authority = try append(value, to: &bytes)
        head.host = ByteRange(head.authority.start, head.authority.start + length)
        head.port = port
    }

    // MARK: - Fields (RFC 9113 section 8.2)

    private mutating func read(
        _ name: Span<UInt8>, _ value: Span<UInt8>, _ head: inout RequestHead, _ bytes: inout ByteBuffer
    ) throws(MessageFault) {
        guard name.isEmpty || name[0] != ByteClass.colon else { return try readPseudo(name, value, &head, &bytes) }
        progress.seen.formUnion(.field)
        guard head.fields.count < heads.fields else { throw .tooManyFields }
        let (known, isUnusual) = try StreamField.check(name, value, table)
        // RFC 9113 section 8.2.3: a cookie may come in pieces, and becomes one field again.
        if known == .cookie {
            // An empty piece would leave a separator without a pair (RFC 6265 section 4.2.1).
            guard !value.isEmpty else { return }
            if !cookies.isEmpty { cookies.append("; ") }
            cookies.append(value)
            return
        }
        if known == .host { try checkHost(value, &head, &bytes) }
        let start = bytes.count
        bytes.append(name, value)
        guard !bytes.overflowed else { throw .headTooLarge }
        let nameRange = ByteRange(start, start + name.count)
        let field = HeaderField(
            nameRange: nameRange, valueRange: ByteRange(nameRange.end, nameRange.end + value.count), name: known,
            hasUnusualName: isUnusual)
        try progress.meanings.take(field, bytes.readable, &head)
        try head.append(field, heads)
    }

    /// Checks Host, which replaces a missing `:authority`. Otherwise both must be equal (RFC 9113 section 8.3.1).
    private mutating func checkHost(
        _ value: Span<UInt8>, _ head: inout RequestHead, _ bytes: inout ByteBuffer
    ) throws(MessageFault) {
        guard !progress.seen.contains(.host) else { throw .hostRepeated }
        progress.seen.formUnion(.host)
        guard progress.seen.contains(.authority) else { return try readAuthority(value, &head, &bytes) }
        guard value.equals(head.authority.of(bytes.readable)) else { throw .targetDisagreesWithHost }
    }

    private func checkTrailer(_ name: Span<UInt8>, _ value: Span<UInt8>) throws(MessageFault) {
        guard name.isEmpty || name[0] != ByteClass.colon else { throw .pseudoFieldLate }
        let (known, isUnusual) = try StreamField.check(name, value, table)
        guard !isUnusual else { throw .fieldNameUnusual }
        switch known {
        case .host, .contentLength: throw .trailerNamesFraming
        default: break
        }
    }

    private mutating func appendCookies(
        _ head: inout RequestHead, _ bytes: inout ByteBuffer
    ) throws(MessageFault) {
        let name = try append(Self.cookie.span, to: &bytes)
        let value = try append(cookies.readable, to: &bytes)
        try head.append(
            HeaderField(nameRange: name, valueRange: value, name: .cookie, hasUnusualName: false), heads)
        cookies.removeAll()
    }

    private func append(_ text: Span<UInt8>, to bytes: inout ByteBuffer) throws(MessageFault) -> ByteRange {
        let start = bytes.count
        bytes.append(text)
        guard !bytes.overflowed else { throw .headTooLarge }
        return ByteRange(start, start + text.count)
    }

    private static let method = Array(":method".utf8)
    private static let scheme = Array(":scheme".utf8)
    private static let authority = Array(":authority".utf8)
    private static let path = Array(":path".utf8)
    private static let protocolName = Array(":protocol".utf8)
    private static let connect = Array("CONNECT".utf8)
    private static let https = Array("https".utf8)
    private static let websocket = Array("websocket".utf8)
    private static let cookie = Array("cookie".utf8)
}

/// The block of fields being received, with the resulting head.
struct IncomingHead: ~Copyable {
    private var block: RequestBlock
    private(set) var head = RequestHead()
    /// The bytes to which the head's ranges refer.
    private var bytes: ByteBuffer
    /// The maximum decoded size, since a few bytes may decode to a great many.
    private let mostDecoded: Int

    init(heads: HeadLimits, limits: HTTP2Limits, pool: BufferPool) {
        block = RequestBlock(heads: heads, limits: limits, pool: pool)
        bytes = ByteBuffer(pool: pool)
        mostDecoded = 4 * limits.headerList
    }

    mutating func begin(trailers: Bool) {
        head.reset()
        bytes.removeAll()
        block.begin(trailers: trailers)
    }

    /// Takes a field.
    ///
    /// - Returns: whether the decoded size, as SETTINGS_MAX_HEADER_LIST_SIZE counts it, is within the limit.
    mutating func take(_ name: Span<UInt8>, _ value: Span<UInt8>) -> Bool {
        block.take(name, value, into: &head, &bytes)
        return block.size <= mostDecoded
    }

    /// Drops an incomplete block.
    mutating func drop() { bytes.removeAll() }

    /// Completes the trailers.
    mutating func finishTrailers(endsStream: Bool) throws(MessageFault) {
        try block.finishTrailers(endsStream: endsStream)
    }

    /// Completes the head, and passes it to the caller.
    ///
    /// - Parameters:
    ///   - head: swapped for the received head.
    ///   - bytes: swapped for the bytes of the received head.
    /// - Returns: Content-Length. Nil if there is none.
    mutating func finish(
        _ head: inout RequestHead, _ bytes: inout ByteBuffer, endsStream: Bool
    ) throws(MessageFault) -> UInt64? {
        defer {
            swap(&head, &self.head)
            swap(&bytes, &self.bytes)
        }
        return try block.finish(&self.head, &self.bytes, endsStream: endsStream)
    }
}
