/// A server whose address is to be found out: a name, and a port.
public struct NamedServer: Hashable, Comparable, Sendable {
    /// In lower case.
    public let host: String
    public let port: UInt16

    public init(host: String, port: UInt16) {
        self.host = host
        self.port = port
    }

    public static func < (left: NamedServer, right: NamedServer) -> Bool {
        (left.host, left.port) < (right.host, right.port)
    }
}

extension NamedServer: CustomStringConvertible {
    public var description: String { "\(host):\(port)" }
}
