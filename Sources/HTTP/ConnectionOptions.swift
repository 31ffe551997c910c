/// What the Connection fields of a head say (RFC 9110 section 7.6.1).
public struct ConnectionOptions: Sendable {
    public private(set) var close = false
    public private(set) var keepAlive = false
    public private(set) var upgrade = false
    /// Names of fields that are not to be passed on, beyond those that never are.
    private var dropped: [ByteRange] = []

    /// Whether a Connection field named this one, so that it goes no further (RFC 9110 section 7.6.1).
    public func drops(_ field: HeaderField, of head: Span<UInt8>) -> Bool {
        for name in dropped where head.equalsIgnoringCase(name, field.nameRange) { return true }
        return false
    }

    /// More names than this in one head are taken for an attack.
    private static let droppedLimit = 16

    mutating func reset() {
        close = false
        keepAlive = false
        upgrade = false
        if !dropped.isEmpty { dropped.removeAll(keepingCapacity: true) }
    }

    /// What an option that names a field of unknown meaning does.
    enum Unknown {
        /// The field is dropped, as RFC 9110 has it.
        case dropped
        /// The head is refused: a client's field may be what a proof covers, or what a service relies on, and none of ours
        /// has a reason to have it taken out.
        case refused
    }

    mutating func take(
        _ head: Span<UInt8>, _ value: ByteRange, _ table: FieldNameTable, unknown: Unknown
    ) throws(MessageFault) {
        var position = value.start
        while true {
            let start = position
            while position < value.end, ByteClass.isToken(head[position]) { position += 1 }
            guard position > start else { throw .connectionMalformed }
            try takeOption(head, ByteRange(start, position), table, unknown)
            position = skipBlanks(head, from: position, to: value.end)
            guard position < value.end else { return }
            guard head[position] == UInt8(ascii: ",") else { throw .connectionMalformed }
            position = skipBlanks(head, from: position + 1, to: value.end)
        }
    }

    private mutating func takeOption(
        _ head: Span<UInt8>, _ range: ByteRange, _ table: FieldNameTable, _ unknown: Unknown
    ) throws(MessageFault) {
        let option = head.extracting(range.start..<range.end)
        if option.equals(lowercase: Self.closeName) {
            close = true
            return
        }
        let name = table.find(option)
        switch name {
        case .keepAlive: keepAlive = true
        case .upgrade: upgrade = true
        case .other:
            guard unknown == .dropped else { throw .connectionNamesField }
            guard dropped.count < Self.droppedLimit else { throw .connectionMalformed }
            dropped.append(range)
        default:
            // Dropping Host, Content-Length, Authorization and their like on the client's word would let it decide what
            // the recipient believes.
            guard name.isHopByHop, name != .transferEncoding else { throw .connectionNamesField }
        }
    }

    private func skipBlanks(_ head: Span<UInt8>, from start: Int, to end: Int) -> Int {
        var position = start
        while position < end, head[position] == ByteClass.space || head[position] == ByteClass.tab { position += 1 }
        return position
    }

    private static let closeName = Array("close".utf8)
}
