internal import COpenSSL

/// The group with which client and server exchanged the keys of a connection.
public enum KeyExchange: Int, CaseIterable, Sendable {
    /// X25519 and ML-KEM-768 together. Recorded traffic stays secret as long as one of them is unbroken, so also if a
    /// later quantum computer breaks X25519.
    case hybrid
    case x25519
    case p256
    /// A group that only services are offered.
    case other

    /// The name in logs and metrics.
    public var name: StaticString {
        switch self {
        case .hybrid: "X25519MLKEM768"
        case .x25519: "X25519"
        case .p256: "P-256"
        case .other: "other"
        }
    }

    /// The group of a completed handshake. Nil for a resumed session of TLS 1.2, which exchanges no keys.
    init?(of connection: OpaquePointer) {
        guard SSL_version(connection) == TLS1_3_VERSION || SSL_session_reused(connection) == 0 else { return nil }
        // By name, because OpenSSL has no number for a group of its provider.
        guard let name = SSL_group_to_name(connection, ag_ssl_get_negotiated_group(connection)) else {
            self = .other
            return
        }
        switch String(cString: name) {
        case "X25519MLKEM768": self = .hybrid
        case "x25519": self = .x25519
        case "secp256r1": self = .p256
        default: self = .other
        }
    }
}

/// The groups that a context offers.
extension KeyExchange {
    /// Sets the groups of a context: X25519MLKEM768 before the others where the library has it (OpenSSL 3.5).
    ///
    /// A server that prefers it has it chosen by every client that supports it, at the price of a second ClientHello if
    /// the client sent no key share for it: hence the slash, which ends a rank. A client with none but the others gets
    /// no HelloRetryRequest, if it sent a key share for one of them. An asterisk marks the groups for which a client
    /// sends key shares: two, so that a service without ML-KEM needs no second ClientHello either.
    ///
    /// - Parameters:
    ///   - groups: the other groups, the best first.
    ///   - context: an `SSL_CTX` of a server or a client.
    /// - Returns: the list that the library has accepted. Nil if it refuses all.
    static func offer(_ groups: [String], in context: OpaquePointer) -> String? {
        let others = groups.joined(separator: ":")
        // An older library refuses the notation as well as the name, and changes nothing then.
        for list in ["*X25519MLKEM768/*\(others)", others] {
            ERR_clear_error()
            if ag_ssl_ctx_set1_groups_list(context, list) == 1 { return list }
        }
        return nil
    }
}
