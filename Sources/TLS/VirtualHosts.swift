internal import COpenSSL

/// The hosts of one listener of one worker. Each has a context of its own; the default context serves clients that ask
/// for no known host.
public final class VirtualHosts {
    /// The default context, in which every connection begins.
    public let standard: ServerContext
    private let named: ServerNameTable<ServerContext>
    /// The last unknown name. Mostly it is always the same one, and thus stored once for all connections.
    private var lastStranger: ServerName?

    /// Creates the hosts of a listener.
    ///
    /// - Parameter hosts: contexts of which no two have a common name.
    public init(_ standard: ServerContext, hosts: [ServerContext] = []) {
        self.standard = standard
        named = ServerNameTable(hosts.flatMap { host in host.names.map { (name: $0, value: host) } })
        for context in [standard] + hosts { context.readClientHello() }
    }

    /// The names of all hosts, each with the admission of its clients.
    public var admissions: [(name: ServerName, admission: ClientAdmission)] {
        named.entries.map { ($0.name, $0.value.trust.admission) }
    }

    /// Returns whether a host has the name, in any case.
    public func hasHost(_ name: Span<UInt8>) -> Bool { named.place(of: name) != nil }

    /// Chooses the context for a name.
    ///
    /// - Parameter name: the name that the client asks for. Nil if there is none.
    /// - Returns: the context, and the name to keep for the lifetime of the connection.
    func choose(_ name: ServerName?) -> (context: ServerContext, name: ServerName?) {
        guard let name else { return (standard, nil) }
        if let place = named.place(of: name.bytes.span) {
            return (named.entries[place].value, named.entries[place].name)
        }
        if lastStranger != name { lastStranger = name }
        return (standard, lastStranger)
    }
}

/// A table of values by host name. A look-up with the received bytes of a name, in any case, copies nothing.
struct ServerNameTable<Value> {
    /// The entries in the order of the names.
    let entries: [(name: ServerName, value: Value)]

    /// Creates a table.
    ///
    /// - Parameter entries: the entries, no name twice.
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

/// The name of a host in the handshake (RFC 6066 section 3) and in the Host field: labels of letters, digits and
/// hyphens, in lower case, without a last dot. Never an address.
public struct ServerName: Hashable, Sendable {
    /// The bytes of the name in lower case.
    public let bytes: [UInt8]

    /// Creates a name from text in any case, or returns nil if it is none.
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
        // A last label of digits belongs to an address, which is no server name (RFC 6066 section 3).
        guard (1...63).contains(name.count - labelStart), !isLabelNumber else { return nil }
        self.bytes = bytes
    }

    public var text: String { String(decoding: bytes, as: UTF8.self) }

    /// Compares names by their bytes. A prefix comes first.
    ///
    /// - Parameter host: a name in any case.
    /// - Returns: below 0 if the host comes before the name, above 0 if after it.
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

/// The extension server_name of a ClientHello (RFC 6066 section 3), parsed strictly: one name of one host.
///
///     struct { NameType name_type; opaque HostName<1..2^16-1>; } ServerName;
///     struct { ServerName server_name_list<1..2^16-1>; } ServerNameList;
enum ServerNameExtension {
    private static let hostName: UInt8 = 0

    static func parse(_ bytes: Span<UInt8>) throws(ClientHelloFault) -> ServerName {
        // Two lengths and a type precede the name. No other type exists, and a list has one name of each type.
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

/// The reason why a ClientHello is refused before its evaluation.
enum ClientHelloFault: Error, Equatable {
    /// The extension server_name is not a list of one name.
    case serverNameMalformed
    /// The name is no host: an address, a last dot, or a forbidden character.
    case serverNameNoHost
    /// After a HelloRetryRequest, the client asks for another host.
    case serverNameChanged
    /// The client offers no protocol (ALPN), which means HTTP/1.1, and the listener supports only these.
    case protocolMissing([ApplicationProtocol])
    /// The client offers only protocols other than these.
    case protocolUnknown([ApplicationProtocol])
    /// The client offers too many session tickets.
    case tooManyTickets
    /// OpenSSL has no memory for the host's settings.
    case noMemory

    /// The alert (RFC 8446 section 6.2): for data that cannot be decoded, or that is decoded and forbidden.
    fileprivate var alert: Int32 {
        switch self {
        case .serverNameMalformed: SSL_AD_DECODE_ERROR
        case .serverNameNoHost, .serverNameChanged, .tooManyTickets: SSL_AD_ILLEGAL_PARAMETER
        // RFC 7301 section 3.2 defines it for unknown names; OpenSSL does not call back where there are none.
        case .protocolMissing, .protocolUnknown: SSL_AD_NO_APPLICATION_PROTOCOL
        case .noMemory: SSL_AD_INTERNAL_ERROR
        }
    }

    /// The reason in words.
    var reason: String {
        switch self {
        case .serverNameMalformed: "the extension server_name is malformed"
        case .serverNameNoHost: "the extension server_name holds no host name"
        case .serverNameChanged: "the second ClientHello has another host than the first"
        case .protocolMissing(let spoken): "the client offers no protocol (ALPN); supported: \(Self.names(of: spoken))"
        case .protocolUnknown(let spoken):
            "the client offers no supported protocol (ALPN); supported: \(Self.names(of: spoken))"
        case .tooManyTickets: "the client offers too many session tickets"
        case .noMemory: "out of memory: the settings of the host"
        }
    }

    private static func names(of protocols: [ApplicationProtocol]) -> String {
        protocols.map(\.name).joined(separator: ", ")
    }
}

extension VirtualHosts {
    /// Moves the connection to the host that its client asks for, and stores the host in the record.
    fileprivate func take(_ connection: OpaquePointer, _ record: HandshakeRecord) throws(ClientHelloFault) {
        guard !SessionTickets.isOfferExcessive(connection) else { throw .tooManyTickets }
        let asked = try Self.serverName(askedOn: connection)
        guard !record.isHostChosen else {
            // Only a few extensions may differ (RFC 8446 section 4.1.2).
            guard asked == record.serverName else { throw .serverNameChanged }
            return
        }
        let (context, name) = choose(asked)
        record.hostChosen(context, name)
        guard context.takeOver(connection) else { throw .noMemory }
        SessionTickets.readOffer(of: connection)
        guard context.protocols.contains(.http11) || Self.namesProtocols(connection) else {
            throw .protocolMissing(context.protocols)
        }
    }

    private static func namesProtocols(_ connection: OpaquePointer) -> Bool {
        var bytes: UnsafePointer<UInt8>?
        var count = 0
        return SSL_client_hello_get0_ext(
            connection, UInt32(TLSEXT_TYPE_application_layer_protocol_negotiation), &bytes, &count) == 1
    }

    private static func serverName(
        askedOn connection: OpaquePointer
    ) throws(ClientHelloFault) -> ServerName? {
        var bytes: UnsafePointer<UInt8>?
        var count = 0
        guard SSL_client_hello_get0_ext(connection, UInt32(TLSEXT_TYPE_server_name), &bytes, &count) == 1 else {
            return nil
        }
        // An empty extension has no first byte.
        guard let bytes else { throw .serverNameMalformed }
        return try ServerNameExtension.parse(UnsafeBufferPointer(start: bytes, count: count).span)
    }
}

nonisolated func clientHelloReceived(
    _ connection: OpaquePointer?, _ alert: UnsafeMutablePointer<Int32>?, _: UnsafeMutableRawPointer?
) -> Int32 {
    guard let connection, let record = HandshakeRecord.of(connection) else {
        alert?.pointee = SSL_AD_INTERNAL_ERROR
        return SSL_CLIENT_HELLO_ERROR
    }
    do throws(ClientHelloFault) {
        try record.hosts.take(connection, record)
        return SSL_CLIENT_HELLO_SUCCESS
    } catch {
        record.helloFault = error
        alert?.pointee = error.alert
        return SSL_CLIENT_HELLO_ERROR
    }
}
