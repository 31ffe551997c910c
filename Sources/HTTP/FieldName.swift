internal import Bytes

/// The header fields whose meaning this gateway knows. All others pass as they are.
public enum FieldName: UInt8, CaseIterable, Sendable {
    case other
    // Routing and framing.
    case host, contentLength, transferEncoding
    // Of one connection only (RFC 9110 section 7.6.1): never forwarded.
    case connection, keepAlive, proxyConnection, proxyAuthenticate, proxyAuthorization, te, trailer, upgrade
    case http2Settings
    // Answered here.
    case expect
    // Frequent and harmless: known so that no rule for unknown fields need look at them.
    case accept, acceptEncoding, acceptLanguage, authorization, cacheControl, contentEncoding, contentType, cookie
    case date, ifMatch, ifModifiedSince, ifNoneMatch, ifRange, ifUnmodifiedSince, origin, range, referer, userAgent
    case etag, lastModified, location, server, setCookie, vary
    // Said by proxies about the client.
    case forwarded, via
    // Message signatures and digests (RFC 9421, RFC 9530).
    case signatureInput, signature, contentDigest, acceptSignature
    // Said by gateways of this kind about their refusals.
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
        case .attestDenial: "attest-denial"
        case .secWebSocketKey: "sec-websocket-key"
        case .secWebSocketVersion: "sec-websocket-version"
        case .secWebSocketAccept: "sec-websocket-accept"
        case .traceparent: "traceparent"
        case .tracestate: "tracestate"
        }
    }

    /// Whether the field concerns one connection only and is never passed on.
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

/// Finds the `FieldName` of a name's bytes: one table for all parsers, made once.
struct FieldNameTable: Sendable {
    static let shared = FieldNameTable()

    private static let mask: UInt32 = 255
    /// Raw values of `FieldName`, 0 where empty; open addressing.
    private var slots = [UInt8](repeating: 0, count: Int(mask) + 1)
    /// All names one after the other, and where each starts and ends, by raw value: flat, so that looking at a name
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
