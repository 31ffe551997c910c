package import EventLoop

/// What a proxy puts before the first byte of a connection that it relays: whose connection it is, by HAProxy's PROXY
/// protocol (doc/proxy-protocol.txt), versions 1 and 2.
///
/// A value without I/O. Version 2 is in `ProxyHeader+Binary`, version 1 in `ProxyHeader+Line`.
package struct ProxyHeader: Sendable {
    /// Where the client is; nil if the proxy speaks for itself or does not know, so that its own address still counts
    /// (section 2.1, UNKNOWN; section 2.2, LOCAL and UNSPEC).
    package let source: SocketAddress?
    /// In bytes. What follows is the client's, whatever it looks like: there is exactly one header.
    package let length: Int

    /// The longest header that is taken, in bytes. The protocol means it to fit a segment of 536 (section 2), but
    /// type-length-values grow: names and certificates of clients are among them.
    package static let longest = binaryHead + 1024

    /// - Parameter bytes: from the first of the connection on, as many as are there.
    /// - Returns: nil if they are the beginning of a header, so that all of them are the header's.
    package static func parse(_ bytes: Span<UInt8>) throws(ProxyHeaderFault) -> ProxyHeader? {
        guard !bytes.isEmpty else { return nil }
        return bytes[0] == keyword[0] ? try parseLine(bytes) : try parseBinary(bytes)
    }
}
