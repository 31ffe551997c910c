internal import COpenSSL

/// Why a client's first message is refused before anything is made of it.
enum ClientHelloFault: Error, Equatable {
    /// The extension server_name is no list of one name.
    case serverNameMalformed
    /// What it names is no host: an address, a last dot, a character that no name has.
    case serverNameNoHost
    /// After a HelloRetryRequest the client asks for another host than before.
    case serverNameChanged
    /// OpenSSL has no memory for the host's settings.
    case noMemory

    /// RFC 8446 section 6.2: what cannot be decoded, and what can but must not be.
    var alert: Int32 {
        switch self {
        case .serverNameMalformed: SSL_AD_DECODE_ERROR
        case .serverNameNoHost, .serverNameChanged: SSL_AD_ILLEGAL_PARAMETER
        case .noMemory: SSL_AD_INTERNAL_ERROR
        }
    }

    /// In words.
    var reason: String {
        switch self {
        case .serverNameMalformed: "the extension server_name is malformed"
        case .serverNameNoHost: "the extension server_name holds no host name"
        case .serverNameChanged: "the second ClientHello asks for another host than the first"
        case .noMemory: "there is no memory for the settings of the host"
        }
    }
}
