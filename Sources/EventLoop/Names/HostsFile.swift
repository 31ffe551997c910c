internal import Glibc

/// /etc/hosts, which goes before every nameserver (hosts(5)).
enum HostsFile {
    /// One that is larger is no file that somebody wrote.
    private static let limit = 1 << 20

    /// The addresses that the file has for a name. Reads the file each time: it is small, and lookups are rare.
    static func addresses(of name: String, port: UInt16, path: String = "/etc/hosts") -> [SocketAddress] {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return [] }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: limit)
        var count = 0
        while count < limit {
            let more = bytes.withUnsafeMutableBytes {
                read(descriptor, $0.baseAddress.map { $0 + count }, limit - count)
            }
            guard more > 0 else { break }
            count += more
        }
        return addresses(of: name, port: port, in: bytes.prefix(count))
    }

    /// - Parameter text: lines of an address and its names; what follows a # is a comment.
    static func addresses(of name: String, port: UInt16, in text: some Collection<UInt8>) -> [SocketAddress] {
        let wanted = lowercased(name.utf8)
        var found: [SocketAddress] = []
        for line in text.split(separator: UInt8(ascii: "\n")) {
            let words = line.prefix { $0 != UInt8(ascii: "#") }.split { isBlank($0) }
            guard let first = words.first, words.dropFirst().contains(where: { lowercased($0) == wanted }) else {
                continue
            }
            let literal = Array(first)
            // Not with a zone: connections to upstreams have no interface of their own.
            guard
                let address = SocketAddress(
                    text: literal.span, isIPv6: literal.contains(UInt8(ascii: ":")), port: port),
                !found.contains(address)
            else { continue }
            found.append(address)
        }
        return found
    }

    private static func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 || byte == 0x0d }

    private static func lowercased(_ bytes: some Sequence<UInt8>) -> [UInt8] {
        bytes.map { (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) ? $0 | 0x20 : $0 }
    }
}
