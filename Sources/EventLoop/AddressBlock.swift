/// The addresses that limits count as one client: an IPv4 address, the /64 of an IPv6 address (the holder of one of its
/// addresses has all: RFC 4291 section 2.5.1), or all clients of Unix sockets.
public struct AddressBlock: Hashable, Sendable {
    private let family: Int32
    private let prefix: UInt64

    init(family: Int32, prefix: UInt64) {
        self.family = family
        self.prefix = prefix
    }
}
