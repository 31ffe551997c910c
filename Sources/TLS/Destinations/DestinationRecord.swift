internal import COpenSSL
internal import Cryptography

/// What OpenSSL's callbacks tell of a connection that we have opened. Owned by the `TLSStream`; OpenSSL's connection refers
/// to it.
final class DestinationRecord {
    /// Kept alive by it, with the context: tickets come at any time.
    let destination: TLSDestination
    /// The server has said that nothing more comes. Without that, the end of the connection is anybody's who is on the way, and
    /// content that lasts until it is not whole (RFC 9112 section 9.8).
    var hasEnded = false
    /// Why the server's certificate was refused, for the log.
    private(set) var fault: String?

    private static let index = ag_ssl_get_ex_new_index(nil)
    /// Of a subject or an issuer, which a stranger may have written.
    private static let longestName = 256

    init(_ destination: TLSDestination) {
        self.destination = destination
    }

    /// - Returns: false if there is no memory for it.
    func attach(to connection: OpaquePointer) -> Bool {
        SSL_set_ex_data(connection, Self.index, Unmanaged.passUnretained(self).toOpaque()) == 1
    }

    static func of(_ connection: OpaquePointer) -> DestinationRecord? {
        SSL_get_ex_data(connection, index).map { Unmanaged<DestinationRecord>.fromOpaque($0).takeUnretainedValue() }
    }

    /// - Parameter certificate: the one of the chain that is objected to.
    func refused(_ certificate: Certificate?, _ reason: String) {
        let names = certificate.map {
            ": subject \($0.subject.prefix(Self.longestName)), issuer \($0.issuer.prefix(Self.longestName))"
        }
        fault = "the server's certificate for \(destination.name) is refused: \(reason)\(names ?? "")"
    }
}
