/// The request for a WebSocket in the Upgrade field or in a CONNECT (RFC 6455 section 4.2.1, RFC 9110 section 7.8). The
/// reading is the strictest, so that no service behind can read it otherwise.
public enum WebSocketHandshake: Equatable, Sendable {
    /// No WebSocket is requested. Other upgrades are not forwarded.
    case none
    /// A WebSocket is requested as RFC 6455 defines it, with this value of Sec-WebSocket-Key.
    case valid(key: ByteRange)
    /// A WebSocket is requested by an extended CONNECT of HTTP/2, which has no key (RFC 8441 section 5).
    case validByConnect
    case malformed(Fault)
    /// The request is well-formed, but for another version than 13.
    case versionUnsupported

    public enum Fault: Error, Equatable, Sendable, CaseIterable {
        case notGet
        case notVersionOneOne
        case content
        case upgradeNotAlone
        case connectionWithoutUpgrade
        case versionCount
        case keyCount
        case keyMalformed

        /// The reason for the log and for the developer of the client.
        public var reason: StaticString {
            switch self {
            case .notGet: "a WebSocket requires the method GET"
            case .notVersionOneOne: "a WebSocket handshake requires HTTP/1.1"
            case .content: "a WebSocket handshake must not have content"
            case .upgradeNotAlone: "Upgrade is not the one token websocket"
            case .connectionWithoutUpgrade: "Connection does not list upgrade"
            case .versionCount: "there is no Sec-WebSocket-Version, or more than one"
            case .keyCount: "there is no Sec-WebSocket-Key, or more than one"
            case .keyMalformed: "Sec-WebSocket-Key is not the base64 of 16 bytes"
            }
        }
    }

    /// Reads the request.
    ///
    /// - Parameter bytes: the bytes to which the ranges of `head` refer.
    public init(_ head: RequestHead, _ bytes: Span<UInt8>) {
        guard !head.opensWebSocket else {
            self = Self.ofConnect(head, bytes)
            return
        }
        var upgrades = 0
        var asks = false
        var isExact = false
        for index in head.fields.indices where head.fields[index].name == .upgrade {
            let value = head.fields[index].valueRange.of(bytes)
            upgrades += 1
            isExact = value.equals(lowercase: Self.token)
            if isExact || Self.names(value) { asks = true }
        }
        guard asks else {
            self = .none
            return
        }
        do throws(Fault) {
            guard isExact, upgrades == 1 else { throw .upgradeNotAlone }
            self = try Self.check(head, bytes)
        } catch {
            self = .malformed(error)
        }
    }

    private static func check(_ head: RequestHead, _ bytes: Span<UInt8>) throws(Fault) -> WebSocketHandshake {
        guard head.method == .get else { throw .notGet }
        guard head.minorVersion == 1 else { throw .notVersionOneOne }
        guard !head.framing.hasContent else { throw .content }
        guard head.connection.upgrade else { throw .connectionWithoutUpgrade }
        guard let version = only(.secWebSocketVersion, head) else { throw .versionCount }
        guard let key = only(.secWebSocketKey, head) else { throw .keyCount }
        guard version.of(bytes).equals(lowercase: versionText) else { return .versionUnsupported }
        guard isKey(key.of(bytes)) else { throw .keyMalformed }
        return .valid(key: key)
    }

    /// Reads an extended CONNECT. The HTTP/2 codec has checked the other rules.
    private static func ofConnect(_ head: RequestHead, _ bytes: Span<UInt8>) -> WebSocketHandshake {
        guard let version = only(.secWebSocketVersion, head) else { return .malformed(.versionCount) }
        return version.of(bytes).equals(lowercase: versionText) ? .validByConnect : .versionUnsupported
    }

    /// Returns the value of a field that occurs exactly once.
    private static func only(_ name: FieldName, _ head: RequestHead) -> ByteRange? {
        var found: ByteRange?
        for index in head.fields.indices where head.fields[index].name == name {
            guard found == nil else { return nil }
            found = head.fields[index].valueRange
        }
        return found
    }

    /// Returns whether a list of protocols contains websocket, in any version.
    private static func names(_ list: Span<UInt8>) -> Bool {
        var start = 0
        while start < list.count {
            var end = start
            while end < list.count, list[end] != UInt8(ascii: ",") { end += 1 }
            var first = start
            while first < end, list[first] == ByteClass.space || list[first] == ByteClass.tab { first += 1 }
            var last = first
            while last < end, ByteClass.isToken(list[last]) { last += 1 }
            if list.extracting(first..<last).equals(lowercase: token) { return true }
            start = end + 1
        }
        return false
    }

    /// Returns whether the value is 22 characters of base64 and two of padding, with unused bits zero: 16 bytes in
    /// canonical form.
    private static func isKey(_ value: Span<UInt8>) -> Bool {
        guard value.count == 24, value[22] == UInt8(ascii: "="), value[23] == UInt8(ascii: "=") else { return false }
        for index in 0..<22 {
            let byte = value[index]
            guard ByteClass.isAlphanumeric(byte) || byte == UInt8(ascii: "+") || byte == UInt8(ascii: "/") else {
                return false
            }
        }
        return lastOfKey.contains(value[21])
    }

    static let token = Array("websocket".utf8)
    private static let versionText = Array("13".utf8)
    /// The characters whose lower four bits are zero.
    private static let lastOfKey = Array("AQgw".utf8)
}

/// A fault of a service's 101 response to a WebSocket's handshake. The gateway checks what the client checks (RFC 6455
/// section 4.1), before a tunnel opens.
public enum WebSocketAnswerFault: Equatable, Sendable, CaseIterable {
    case upgrade
    case connection
    case acceptCount
    case acceptWrong

    /// The reason for the log.
    public var reason: StaticString {
        switch self {
        case .upgrade: "Upgrade is not the one token websocket"
        case .connection: "Connection does not list upgrade"
        case .acceptCount: "there is no Sec-WebSocket-Accept, or more than one"
        case .acceptWrong: "Sec-WebSocket-Accept does not belong to the key"
        }
    }

    /// Checks a response.
    ///
    /// - Parameters:
    ///   - head: the head of the response.
    ///   - bytes: the bytes to which the ranges of `head` refer.
    ///   - accept: the value that belongs to the client's key.
    /// - Returns: nil if the response is valid.
    public init?(_ head: ResponseHead, _ bytes: Span<UInt8>, accept: Span<UInt8>) {
        var upgrades = 0
        var accepts = 0
        var isUpgrade = false
        var isAccept = false
        for index in head.fields.indices {
            let field = head.fields[index]
            switch field.name {
            case .upgrade:
                upgrades += 1
                isUpgrade = field.valueRange.of(bytes).equals(lowercase: WebSocketHandshake.token)
            case .secWebSocketAccept:
                accepts += 1
                isAccept = field.valueRange.of(bytes).equals(accept)
            default: break
            }
        }
        if upgrades != 1 || !isUpgrade {
            self = .upgrade
        } else if !head.connection.upgrade {
            self = .connection
        } else if accepts != 1 {
            self = .acceptCount
        } else if !isAccept {
            self = .acceptWrong
        } else {
            return nil
        }
    }
}
