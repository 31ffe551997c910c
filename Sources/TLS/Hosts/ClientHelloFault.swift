internal import COpenSSL

/// Why a client's first message is refused before anything is made of it.
enum ClientHelloFault: Error, Equatable {
    /// The extension server_name is no list of one name.
    case serverNameMalformed
    /// What it names is no host: an address, a last dot, a character that no name has.
    case serverNameNoHost
    /// After a HelloRetryRequest the client asks for another host than before.
    case serverNameChanged
    /// The client names no protocol (ALPN), and HTTP/1.1, which that would mean, is not spoken here, but these are.
    case protocolMissing([ApplicationProtocol])
    /// It names others than these.
    case protocolUnknown([ApplicationProtocol])
    /// OpenSSL has no memory for the host's settings.
    case noMemory

    /// RFC 8446 section 6.2: what cannot be decoded, and what can but must not be.
    var alert: Int32 {
        switch self {
        case .serverNameMalformed: SSL_AD_DECODE_ERROR
        case .serverNameNoHost, .serverNameChanged: SSL_AD_ILLEGAL_PARAMETER
        // RFC 7301 section 3.2 has it for names that do not fit; OpenSSL asks nobody where there are none.
        case .protocolMissing, .protocolUnknown: SSL_AD_NO_APPLICATION_PROTOCOL
        case .noMemory: SSL_AD_INTERNAL_ERROR
        }
    }

    /// In words.
    var reason: String {
        switch self {
        case .serverNameMalformed: "the extension server_name is malformed"
        case .serverNameNoHost: "the extension server_name holds no host name"
        case .serverNameChanged: "the second ClientHello has another host than the first"
        case .protocolMissing(let spoken): "the client offers no protocol (ALPN); supported: \(Self.names(of: spoken))"
        case .protocolUnknown(let spoken):
            "the client offers no supported protocol (ALPN); supported: \(Self.names(of: spoken))"
        case .noMemory: "out of memory: the settings of the host"
        }
    }

    private static func names(of protocols: [ApplicationProtocol]) -> String {
        protocols.map(\.name).joined(separator: ", ")
    }
}
