internal import Bytes

/// A header field of a parsed head: the ranges of its name and value.
public struct HeaderField: Sendable {
    public let nameRange: ByteRange
    /// The value without the white space around it.
    public let valueRange: ByteRange
    public let name: FieldName
    /// Whether the name has characters other than letters, digits and `-`. Many servers read those as `-`, so a client
    /// could send a second spelling of a removed field.
    public let hasUnusualName: Bool
}

/// The parser of field lines in heads and trailers (RFC 9112 section 5), with the strictest reading of each rule.
enum FieldLine {
    enum Outcome {
        case field(HeaderField, next: Int)
        /// The empty line that ends the section.
        case end(next: Int)
        /// The line is not complete yet.
        case incomplete
    }

    static func parse(
        _ bytes: Span<UInt8>, at start: Int, table: FieldNameTable
    ) throws(MessageFault) -> Outcome {
        guard start < bytes.count else { return .incomplete }
        switch bytes[start] {
        case ByteClass.carriageReturn:
            guard start + 1 < bytes.count else { return .incomplete }
            guard bytes[start + 1] == ByteClass.lineFeed else { throw .bareCarriageReturn }
            return .end(next: start + 2)
        case ByteClass.space, ByteClass.tab: throw .obsoleteLineFolding
        default: break
        }

        // The name, up to the colon. Letters and hyphens are skipped in words.
        var position = bytes.firstBesideLetters(from: start)
        var isUnusual = false
        while true {
            guard position < bytes.count else { return .incomplete }
            let byte = bytes[position]
            if byte == ByteClass.colon { break }
            guard ByteClass.isToken(byte) else { throw fault(inName: byte, at: position, start: start) }
            if !ByteClass.isPlainInName(byte) { isUnusual = true }
            position = bytes.firstBesideLetters(from: position + 1)
        }
        guard position > start else { throw .fieldNameMalformed }
        let name = bytes.extracting(start..<position)
        let nameEnd = position

        // The value, without the white space around it.
        position += 1
        while position < bytes.count, isBlank(bytes[position]) { position += 1 }
        let valueStart = position
        position = bytes.firstControl(from: position)
        // The one control character that is allowed there.
        while position < bytes.count, bytes[position] == ByteClass.tab {
            position = bytes.firstControl(from: position + 1)
        }
        guard position < bytes.count else { return .incomplete }
        guard bytes[position] == ByteClass.carriageReturn else {
            throw bytes[position] == ByteClass.lineFeed ? .bareLineFeed : .fieldValueMalformed
        }
        guard position + 1 < bytes.count else { return .incomplete }
        guard bytes[position + 1] == ByteClass.lineFeed else { throw .bareCarriageReturn }
        var valueEnd = position
        while valueEnd > valueStart, isBlank(bytes[valueEnd - 1]) { valueEnd -= 1 }
        let field = HeaderField(
            nameRange: ByteRange(start, nameEnd), valueRange: ByteRange(valueStart, valueEnd),
            name: table.find(name), hasUnusualName: isUnusual)
        return .field(field, next: position + 2)
    }

    static func isBlank(_ byte: UInt8) -> Bool { byte == ByteClass.space || byte == ByteClass.tab }

    private static func fault(inName byte: UInt8, at position: Int, start: Int) -> MessageFault {
        switch byte {
        case ByteClass.space, ByteClass.tab: position > start ? .spaceBeforeColon : .obsoleteLineFolding
        case ByteClass.lineFeed: .bareLineFeed
        default: .fieldNameMalformed
        }
    }
}

/// The header fields that the gateway interprets. All others pass unchanged.
public enum FieldName: UInt8, CaseIterable, Sendable {
    case other
    // Routing and framing.
    case host, contentLength, transferEncoding
    // Of one connection only (RFC 9110 section 7.6.1): never forwarded.
    case connection, keepAlive, proxyConnection, proxyAuthenticate, proxyAuthorization, te, trailer, upgrade
    case http2Settings
    // Answered here.
    case expect
    // Frequent and harmless: known so that no rule for unknown fields checks them.
    case accept, acceptEncoding, acceptLanguage, authorization, cacheControl, contentEncoding, contentType, cookie
    case date, ifMatch, ifModifiedSince, ifNoneMatch, ifRange, ifUnmodifiedSince, origin, range, referer, userAgent
    case etag, lastModified, location, server, setCookie, vary
    // Set by proxies about the client.
    case forwarded, via
    // Message signatures and digests (RFC 9421, RFC 9530), and the counter of a proof.
    case signatureInput, signature, contentDigest, acceptSignature, attestProofCounter
    // Set by gateways of this kind about their denials.
    case attestDenial
    // WebSockets (RFC 6455 section 11.3).
    case secWebSocketKey, secWebSocketVersion, secWebSocketAccept
    // W3C Trace Context.
    case traceparent, tracestate

    /// The name in lower case.
    public var lowercase: StaticString {
        switch self {
        case .other: ""
        case .host: "host"
        case .contentLength: "content-length"
        case .transferEncoding: "transfer-encoding"
        case .connection: "connection"
        case .keepAlive: "keep-alive"
        case .proxyConnection: "proxy-connection"
        case .proxyAuthenticate: "proxy-authenticate"
        case .proxyAuthorization: "proxy-authorization"
        case .te: "te"
        case .trailer: "trailer"
        case .upgrade: "upgrade"
        case .http2Settings: "http2-settings"
        case .expect: "expect"
        case .accept: "accept"
        case .acceptEncoding: "accept-encoding"
        case .acceptLanguage: "accept-language"
        case .authorization: "authorization"
        case .cacheControl: "cache-control"
        case .contentEncoding: "content-encoding"
        case .contentType: "content-type"
        case .cookie: "cookie"
        case .date: "date"
        case .ifMatch: "if-match"
        case .ifModifiedSince: "if-modified-since"
        case .ifNoneMatch: "if-none-match"
        case .ifRange: "if-range"
        case .ifUnmodifiedSince: "if-unmodified-since"
        case .origin: "origin"
        case .range: "range"
        case .referer: "referer"
        case .userAgent: "user-agent"
        case .etag: "etag"
        case .lastModified: "last-modified"
        case .location: "location"
        case .server: "server"
        case .setCookie: "set-cookie"
        case .vary: "vary"
        case .forwarded: "forwarded"
        case .via: "via"
        case .signatureInput: "signature-input"
        case .signature: "signature"
        case .contentDigest: "content-digest"
        case .acceptSignature: "accept-signature"
        case .attestProofCounter: "attest-proof-counter"
        case .attestDenial: "attest-denial"
        case .secWebSocketKey: "sec-websocket-key"
        case .secWebSocketVersion: "sec-websocket-version"
        case .secWebSocketAccept: "sec-websocket-accept"
        case .traceparent: "traceparent"
        case .tracestate: "tracestate"
        }
    }

    /// Whether the field concerns one connection only and is never forwarded.
    public var isHopByHop: Bool {
        switch self {
        case .connection, .keepAlive, .proxyConnection, .proxyAuthenticate, .proxyAuthorization, .te, .trailer,
            .upgrade, .http2Settings, .transferEncoding:
            true
        default:
            false
        }
    }
}

/// The table that finds the `FieldName` of a name's bytes. All parsers share it.
struct FieldNameTable: Sendable {
    static let shared = FieldNameTable()

    private static let mask: UInt32 = 255
    /// The raw values of `FieldName`, 0 where empty; open addressing.
    private var slots = [UInt8](repeating: 0, count: Int(mask) + 1)
    /// The bytes of all names, and the beginning and end of each by raw value. They are flat, so that a comparison
    /// counts no reference that the workers would pass from core to core.
    private var bytes: [UInt8] = []
    private var names: [(range: Range<Int>, ends: CaselessEnds)] = []

    private init() {
        for name in FieldName.allCases {
            let spelling = Array(String(describing: name.lowercase).utf8)
            let ends = CaselessEnds(of: spelling.span)
            names.append((bytes.count..<(bytes.count + spelling.count), ends))
            bytes += spelling
            guard name != .other else { continue }
            var slot = Self.slot(ends.hash)
            while slots[slot] != 0 { slot = Self.next(slot) }
            slots[slot] = name.rawValue
        }
    }

    func find(_ name: Span<UInt8>) -> FieldName {
        let ends = CaselessEnds(of: name)
        var slot = Self.slot(ends.hash)
        while true {
            let candidate = slots[slot]
            if candidate == 0 { return .other }
            let known = names[Int(candidate)]
            if known.ends == ends, ends.areAll || name.spells(lowercase: bytes.span.extracting(known.range)) {
                return FieldName(rawValue: candidate) ?? .other
            }
            slot = Self.next(slot)
        }
    }

    private static func slot(_ hash: UInt32) -> Int { Int((hash ^ hash >> 15) & mask) }
    private static func next(_ slot: Int) -> Int { (slot + 1) & Int(mask) }
}

/// The contents of the Connection fields of a head (RFC 9110 section 7.6.1).
public struct ConnectionOptions: Sendable {
    public private(set) var close = false
    public private(set) var keepAlive = false
    public private(set) var upgrade = false
    /// The names of fields that are not forwarded, beyond those that never are.
    private var dropped: [ByteRange] = []

    /// Returns whether a Connection field named this field, so that it is not forwarded (RFC 9110 section 7.6.1).
    public func drops(_ field: HeaderField, of head: Span<UInt8>) -> Bool {
        for name in dropped where head.equalsIgnoringCase(name, field.nameRange) { return true }
        return false
    }

    /// The maximum number of names in one head. More indicate an attack.
    private static let droppedLimit = 16

    mutating func reset() {
        close = false
        keepAlive = false
        upgrade = false
        if !dropped.isEmpty { dropped.removeAll(keepingCapacity: true) }
    }

    /// The effect of an option that names an unknown field.
    enum Unknown {
        /// The field is dropped, as RFC 9110 requires.
        case dropped
        /// The head is refused. A proof may cover the field, or a service may rely on it, and none of our clients has a
        /// reason to remove it.
        case refused
    }

    mutating func take(
        _ head: Span<UInt8>, _ value: ByteRange, _ table: FieldNameTable, unknown: Unknown
    ) throws(MessageFault) {
        var position = value.start
        while true {
            let start = position
            while position < value.end, ByteClass.isToken(head[position]) { position += 1 }
            guard position > start else { throw .connectionMalformed }
            try takeOption(head, ByteRange(start, position), table, unknown)
            position = skipBlanks(head, from: position, to: value.end)
            guard position < value.end else { return }
            guard head[position] == UInt8(ascii: ",") else { throw .connectionMalformed }
            position = skipBlanks(head, from: position + 1, to: value.end)
        }
    }

    private mutating func takeOption(
        _ head: Span<UInt8>, _ range: ByteRange, _ table: FieldNameTable, _ unknown: Unknown
    ) throws(MessageFault) {
        let option = head.extracting(range.start..<range.end)
        if option.equals(lowercase: Self.closeName) {
            close = true
            return
        }
        let name = table.find(option)
        switch name {
        case .keepAlive: keepAlive = true
        case .upgrade: upgrade = true
        case .other:
            guard unknown == .dropped else { throw .connectionNamesField }
            guard dropped.count < Self.droppedLimit else { throw .connectionMalformed }
            dropped.append(range)
        default:
            // Dropping Host, Content-Length, Authorization and the like at the client's request would let it decide
            // what the recipient believes.
            guard name.isHopByHop, name != .transferEncoding else { throw .connectionNamesField }
        }
    }

    private func skipBlanks(_ head: Span<UInt8>, from start: Int, to end: Int) -> Int {
        var position = start
        while position < end, head[position] == ByteClass.space || head[position] == ByteClass.tab { position += 1 }
        return position
    }

    private static let closeName = Array("close".utf8)
}
