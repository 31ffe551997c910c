internal import EventLoop

/// Forms of a client's address for logs and the Forwarded field.
enum ClientNetwork {
    /// Returns the address truncated to its network, /24 or /48: enough to recognize an attack, too little to
    /// recognize a person.
    static func text(of address: SocketAddress) -> [UInt8] {
        guard !address.isUnix else { return Array("unix".utf8) }
        let host = address.host
        if address.isIPv6 {
            // inet_ntop writes groups in lower case; the text before the third colon is the first 48 bits, unless an
            // earlier `::` shortens them.
            let groups = host.split(separator: ":", maxSplits: 3, omittingEmptySubsequences: false).prefix(3)
            let known = groups.prefix { !$0.isEmpty }
            return Array("\(known.joined(separator: ":"))::/48".utf8)
        }
        let octets = host.split(separator: ".")
        return Array("\(octets.prefix(3).joined(separator: ".")).0/24".utf8)
    }

    /// Returns the start of the Forwarded field (RFC 7239), up to the value of `host`:
    /// `for=192.0.2.7;proto=https;host="`.
    static func forwardedPrefix(of address: SocketAddress) -> [UInt8] {
        // RFC 7239 section 6.3, for the peer of a Unix socket.
        let host = address.isUnix ? "unknown" : address.host
        // An IPv6 address has brackets, and therefore quotes (section 6).
        let node = address.isIPv6 ? "\"[\(host)]\"" : host
        return Array("for=\(node);proto=https;host=\"".utf8)
    }
}
