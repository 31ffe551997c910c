/// The extension server_name of a ClientHello (RFC 6066 section 3), read strictly: one name of one host, and nothing else.
///
///     struct { NameType name_type; opaque HostName<1..2^16-1>; } ServerName;
///     struct { ServerName server_name_list<1..2^16-1>; } ServerNameList;
enum ServerNameExtension {
    private static let hostName: UInt8 = 0

    static func parse(_ bytes: Span<UInt8>) throws(ClientHelloFault) -> ServerName {
        // Two lengths and a type before the name. There is no other type, and no list has two names of one.
        guard bytes.count >= 5, length(bytes, at: 0) == bytes.count - 2, bytes[2] == hostName,
            length(bytes, at: 3) == bytes.count - 5
        else { throw .serverNameMalformed }
        guard let name = ServerName(bytes.extracting(5...)) else { throw .serverNameNoHost }
        return name
    }

    private static func length(_ bytes: Span<UInt8>, at index: Int) -> Int {
        Int(bytes[index]) << 8 | Int(bytes[index + 1])
    }
}
