/// Why the connection of a trusted proxy is not served. Sections are those of HAProxy's proxy-protocol.txt.
public enum ProxyHeaderFault: Error, Equatable, Sendable {
    /// Neither the word `PROXY` nor the signature of version 2: the connection must be dropped (section 2.2).
    case absent
    /// The time for the handshake is over.
    case late
    /// The proxy ended the connection in the middle.
    case cut

    // Version 1, section 2.1.
    case lineTooLong
    /// A line feed without its carriage return.
    case lineEnd
    /// Neither TCP4 nor TCP6 nor UNKNOWN.
    case lineProtocol
    /// Words are missing, or too many, or not one space apart.
    case lineWords
    case lineAddress
    case linePort

    // Version 2, section 2.2.
    case version
    case command
    case tooLong
    /// Neither TCP over IPv4 nor over IPv6 nor unspecified.
    case family
    /// Too short for its two addresses.
    case addresses
    /// A type-length-value does not fit in what is left of the header.
    case value
    /// The checksum is wrong, or there are two (section 2.2.3).
    case checksum

    /// For the log. Nothing of the header is repeated.
    public var reason: String {
        switch self {
        case .absent: "the trusted proxy's connection does not begin with a PROXY header"
        case .late: "the PROXY header was not complete in time"
        case .cut: "the trusted proxy closed the connection within the PROXY header"
        case .lineTooLong: "PROXY header, version 1: no line end within 107 bytes"
        case .lineEnd: "PROXY header, version 1: the line does not end with CRLF"
        case .lineProtocol: "PROXY header, version 1: the protocol is not TCP4, TCP6 or UNKNOWN"
        case .lineWords: "PROXY header, version 1: not two addresses and two ports, one space apart"
        case .lineAddress: "PROXY header, version 1: no address of the family it names"
        case .linePort: "PROXY header, version 1: no port from 0 to 65535 in plain decimal digits"
        case .version: "PROXY header, version 2: another version"
        case .command: "PROXY header, version 2: the command is neither LOCAL nor PROXY"
        case .tooLong: "PROXY header, version 2: longer than \(ProxyHeader.longest) bytes"
        case .family: "PROXY header, version 2: the client's connection is not TCP over IPv4 or IPv6"
        case .addresses: "PROXY header, version 2: too short for its addresses"
        case .value: "PROXY header, version 2: a type-length-value reaches beyond the header"
        case .checksum: "PROXY header, version 2: the checksum is wrong"
        }
    }
}
