internal import COpenSSL

/// The hosts of one listener of one worker: each has a context of its own, and there is one for clients that ask for no host,
/// or for one that is not among them.
public final class VirtualHosts {
    /// For everybody else. Every connection begins with it.
    public let standard: ServerContext
    private let named: ServerNameTable<ServerContext>
    /// The last name asked for that is no host's: mostly it is always the same one, and kept once for all connections.
    private var lastStranger: ServerName?

    /// - Parameter hosts: no name may be that of two of them.
    public init(_ standard: ServerContext, hosts: [ServerContext] = []) {
        self.standard = standard
        named = ServerNameTable(hosts.flatMap { host in host.names.map { (name: $0, value: host) } })
        for context in [standard] + hosts { context.readClientHello() }
    }

    /// Every host's name, with what admits its clients.
    public var admissions: [(name: ServerName, admission: ClientAdmission)] {
        named.entries.map { ($0.name, $0.value.admission) }
    }

    /// Whether one of the hosts has the name, which may be written in any case.
    public func hasHost(_ name: Span<UInt8>) -> Bool { named.place(of: name) != nil }

    /// - Parameter name: what the client asks for; nil if for nothing.
    /// - Returns: who serves it, and the name, to be kept for as long as the connection lasts.
    func choose(_ name: ServerName?) -> (context: ServerContext, name: ServerName?) {
        guard let name else { return (standard, nil) }
        if let place = named.place(of: name.bytes.span) {
            return (named.entries[place].value, named.entries[place].name)
        }
        if lastStranger != name { lastStranger = name }
        return (standard, lastStranger)
    }
}

/// Values by the names of hosts. Asked with the bytes of a name as they came, in any case, it makes no copy of them.
struct ServerNameTable<Value> {
    /// In the order of the names.
    let entries: [(name: ServerName, value: Value)]

    /// - Parameter entries: no name twice.
    init(_ entries: [(name: ServerName, value: Value)]) {
        self.entries = entries.sorted { $1.name.order(of: $0.name.bytes.span) < 0 }
    }

    func place(of name: Span<UInt8>) -> Int? {
        var (low, high) = (0, entries.count)
        while low < high {
            let middle = (low + high) / 2
            let order = entries[middle].name.order(of: name)
            if order == 0 { return middle }
            if order < 0 { high = middle } else { low = middle + 1 }
        }
        return nil
    }
}

/// The name of a host, as clients ask for it in the handshake (RFC 6066 section 3) and requests name it in Host: labels of
/// letters, digits and hyphens, in lower case, without a last dot. Never an address.
public struct ServerName: Hashable, Sendable {
    /// In lower case.
    public let bytes: [UInt8]

    /// Nil if the text is no such name. Letters may be of either case.
    public init?(_ text: String) {
        self.init(Array(text.utf8).span)
    }

    init?(_ name: Span<UInt8>) {
        guard (1...253).contains(name.count) else { return nil }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(name.count)
        var labelStart = 0
        var isLabelNumber = true
        for index in name.indices {
            let byte = Self.lowercased(name[index])
            switch byte {
            case UInt8(ascii: "."):
                guard (1...63).contains(index - labelStart) else { return nil }
                labelStart = index + 1
                isLabelNumber = true
            case UInt8(ascii: "0")...UInt8(ascii: "9"): break
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "-"): isLabelNumber = false
            default: return nil
            }
            bytes.append(byte)
        }
        // A last label of digits is the end of an address, and those are no names (RFC 6066 section 3).
        guard (1...63).contains(name.count - labelStart), !isLabelNumber else { return nil }
        self.bytes = bytes
    }

    public var text: String { String(decoding: bytes, as: UTF8.self) }

    /// In the order of the bytes, shorter names first where one begins with the other.
    ///
    /// - Parameter host: in any case.
    /// - Returns: below 0 if the host comes before the name, above if after it.
    func order(of host: Span<UInt8>) -> Int {
        let name = bytes.span
        for index in 0..<min(host.count, name.count) {
            let byte = Self.lowercased(host[index])
            if byte != name[index] { return Int(byte) - Int(name[index]) }
        }
        return host.count - name.count
    }

    private static func lowercased(_ byte: UInt8) -> UInt8 {
        (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte) ? byte | 0x20 : byte
    }
}

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
