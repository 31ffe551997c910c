internal import EventLoop
internal import HTTP

/// What may say who a patient is, and is logged only where the conf file names it in `log.fields`.
package struct DisclosedFields: OptionSet, Sendable {
    package let rawValue: UInt8

    package init(rawValue: UInt8) {
        self.rawValue = rawValue
    }

    package static let path = DisclosedFields(rawValue: 1)
    package static let query = DisclosedFields(rawValue: 2)
    package static let clientAddress = DisclosedFields(rawValue: 4)
    package static let userAgent = DisclosedFields(rawValue: 8)
}

/// The same of one request: copies, for they are rarely wanted.
struct Disclosure {
    var path: [UInt8]?
    var query: [UInt8]?
    var clientAddress: [UInt8]?
    var userAgent: [UInt8]?

    init() {}

    init(_ fields: DisclosedFields, of peer: SocketAddress) {
        if fields.contains(.clientAddress) { clientAddress = Array(peer.host.utf8) }
    }

    /// - Parameter bytes: of the head; empty if no head was complete, and then nothing of it is disclosed.
    mutating func add(_ fields: DisclosedFields, of head: RequestHead, _ bytes: Span<UInt8>) {
        guard !bytes.isEmpty else { return }
        if fields.contains(.path) { path = Self.copy(head.path.of(bytes)) }
        if fields.contains(.query), let range = head.query { query = Self.copy(range.of(bytes)) }
        if fields.contains(.userAgent), let field = head.fields.first(where: { $0.name == .userAgent }) {
            userAgent = Self.copy(field.valueRange.of(bytes))
        }
    }

    private static func copy(_ bytes: Span<UInt8>) -> [UInt8] {
        bytes.indices.map { bytes[$0] }
    }
}

/// How logs name a device.
struct DeviceLabel: Equatable {
    /// The first eight bytes of an HMAC of its key id, under a key for logs alone.
    let id: UInt64
    /// The id of its app; nil if that is not configured any more.
    let app: [UInt8]?
}
