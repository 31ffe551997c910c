/// What is wrong with a service's 101 to the handshake of a WebSocket (RFC 6455 section 4.1, what the client checks). The gateway
/// looks at it as the client does: before, no tunnel opens.
public enum WebSocketAnswerFault: Equatable, Sendable, CaseIterable {
    case upgrade
    case connection
    case acceptCount
    case acceptWrong

    /// For the log.
    public var reason: StaticString {
        switch self {
        case .upgrade: "Upgrade is not the one token websocket"
        case .connection: "Connection does not list upgrade"
        case .acceptCount: "there is no Sec-WebSocket-Accept, or more than one"
        case .acceptWrong: "Sec-WebSocket-Accept does not belong to the key"
        }
    }

    /// - Parameters:
    ///   - bytes: what the ranges of `head` refer to.
    ///   - accept: the value that belongs to the client's key.
    /// - Returns: nil if the answer is valid.
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
