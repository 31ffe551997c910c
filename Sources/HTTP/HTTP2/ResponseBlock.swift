internal import Bytes

/// A parser of the fields of HTTP/2 responses, which makes a head or trailers in the form of HTTP/1.1's parser. So the
/// further handling does not depend on the version. It is as strict, by RFC 9113 section 8.
///
/// One value serves all responses of a connection, since their blocks come one after the other (section 4.3).
struct ResponseBlock {
    private let fieldLimit: Int
    private let listLimit: Int
    private let table = FieldNameTable.shared

    private var state = State.none
    /// The decoded bytes of the block, as SETTINGS_MAX_HEADER_LIST_SIZE counts them.
    private(set) var size = 0
    private var framing = FramingFields()

    private enum State {
        /// No block has begun that is not complete.
        case none
        case pseudoFields(hasStatus: Bool)
        /// No pseudo-header field may follow.
        case fields(hasStatus: Bool)
        /// Further fields are only counted.
        case faulted(MessageFault)
    }

    /// Whether a block has begun and is not complete.
    var isOpen: Bool { if case .none = state { false } else { true } }

    init(heads: HeadLimits, limits: HTTP2Limits) {
        fieldLimit = heads.fields
        listLimit = limits.headerList
    }

    mutating func begin() {
        state = .pseudoFields(hasStatus: false)
        size = 0
        framing = FramingFields()
    }

    /// Ends the block.
    ///
    /// - Returns: whether it has a status.
    /// - Throws: its first fault.
    private mutating func end() throws(MessageFault) -> Bool {
        defer { state = .none }
        switch state {
        case .none: return false
        case .pseudoFields(let hasStatus), .fields(let hasStatus): return hasStatus
        case .faulted(let fault): throw fault
        }
    }

    /// Ends a block whose fields were only counted.
    mutating func drop() { state = .none }

    /// Counts a field without reading it.
    mutating func skip(_ name: Span<UInt8>, _ value: Span<UInt8>) {
        // RFC 9113 section 6.5.2.
        size += name.count + value.count + 32
    }

    // MARK: - Heads

    /// Reads a field of a head.
    ///
    /// - Parameter bytes: the buffer to which the ranges of `head` refer, and which is appended to.
    mutating func take(
        _ name: Span<UInt8>, _ value: Span<UInt8>, into head: inout ResponseHead, _ bytes: inout ByteBuffer
    ) {
        skip(name, value)
        if case .faulted = state { return }
        do throws(MessageFault) {
            guard size <= listLimit else { throw .headTooLarge }
            switch state {
            case .none, .faulted: return
            case .pseudoFields(let hasStatus):
                guard name.isEmpty || name[0] != ByteClass.colon else {
                    return try readStatus(name, value, &head, isRepeated: hasStatus)
                }
                state = .fields(hasStatus: hasStatus)
            case .fields: guard name.isEmpty || name[0] != ByteClass.colon else { throw .pseudoFieldLate }
            }
            guard head.fields.count < fieldLimit else { throw .tooManyFields }
            let (known, isUnusual) = try StreamField.check(name, value, table)
            if known == .contentLength { try framing.takeContentLength(value) }
            head.fields.append(try Self.append(name, value, known, isUnusual: isUnusual, to: &bytes))
        } catch {
            state = .faulted(error)
        }
    }

    /// Reads the status (RFC 9113 section 8.3.2).
    private mutating func readStatus(
        _ name: Span<UInt8>, _ value: Span<UInt8>, _ head: inout ResponseHead, isRepeated: Bool
    ) throws(MessageFault) {
        guard name.equals(Self.status.span) else { throw .pseudoFieldUnknown }
        guard !isRepeated else { throw .pseudoFieldRepeated }
        state = .pseudoFields(hasStatus: true)
        guard value.count == 3 else { throw .statusLineMalformed }
        var status: UInt16 = 0
        for index in value.indices {
            guard ByteClass.isDigit(value[index]) else { throw .statusLineMalformed }
            status = status * 10 + UInt16(value[index] - 0x30)
        }
        guard (100...599).contains(status) else { throw .statusLineMalformed }
        head.status = status
    }

    /// Completes the head.
    ///
    /// - Parameter isHead: whether it answers HEAD.
    /// - Returns: the announced length of the content. Nil if it is unknown.
    mutating func finish(
        _ head: inout ResponseHead, isHead: Bool, endsStream: Bool
    ) throws(MessageFault) -> UInt64? {
        guard try end() else { throw .pseudoFieldMissing }
        // RFC 9113 section 8.6: HTTP/2 switches no protocols.
        guard head.status != 101 else { throw .protocolSwitched }
        head.statedLength = framing.contentLength
        if head.isInterim || head.status == 204 {
            guard framing.contentLength ?? 0 == 0 else { throw .contentImpossible }
            // RFC 9113 section 8.1: an interim response does not end the stream.
            guard !head.isInterim || !endsStream else { throw .headMissing }
            return 0
        }
        if isHead || head.status == 304 { return 0 }
        guard !endsStream else {
            guard framing.contentLength ?? 0 == 0 else { throw .contentLengthDisagrees }
            return 0
        }
        head.framing = try framing.framing(minorVersion: 1) ?? .chunked
        return framing.contentLength
    }

    // MARK: - Trailers

    /// Reads a field of trailers.
    ///
    /// - Parameter bytes: the buffer to which the ranges of `trailers` refer, and which is appended to.
    mutating func take(
        _ name: Span<UInt8>, _ value: Span<UInt8>, into trailers: inout ResponseTrailers, _ bytes: inout ByteBuffer
    ) {
        skip(name, value)
        if case .faulted = state { return }
        do throws(MessageFault) {
            guard size <= listLimit, trailers.fields.count < fieldLimit else { throw .trailerTooLarge }
            guard name.isEmpty || name[0] != ByteClass.colon else { throw .pseudoFieldLate }
            let (known, isUnusual) = try StreamField.check(name, value, table)
            switch known {
            // RFC 9110 section 6.5.1: these have no effect in trailers.
            case .host, .contentLength: throw .trailerNamesFraming
            case _ where known.isHopByHop: return
            default: trailers.fields.append(try Self.append(name, value, known, isUnusual: isUnusual, to: &bytes))
            }
        } catch {
            state = .faulted(error)
        }
    }

    /// Completes the trailers.
    mutating func finishTrailers(endsStream: Bool) throws(MessageFault) {
        _ = try end()
        guard endsStream else { throw .trailersUnended }
    }

    private static func append(
        _ name: Span<UInt8>, _ value: Span<UInt8>, _ known: FieldName, isUnusual: Bool, to bytes: inout ByteBuffer
    ) throws(MessageFault) -> HeaderField {
        let start = bytes.count
        bytes.append(name)
        bytes.append(value)
        guard !bytes.overflowed else { throw .headTooLarge }
        let middle = start + name.count
        return HeaderField(
            nameRange: ByteRange(start, middle), valueRange: ByteRange(middle, middle + value.count), name: known,
            hasUnusualName: isUnusual)
    }

    private static let status = Array(":status".utf8)
}

/// The beginning of HTTP/2 in a server's bytes where HTTP/1.1 is expected, whose responses begin with a letter.
///
/// It is SETTINGS (RFC 9113 section 3.4), or GOAWAY from a server that did not understand the request.
public enum HTTP2Preface: Equatable, Sendable {
    /// The bytes do not begin like HTTP/2, or there are none.
    case none
    /// The bytes so far may begin HTTP/2.
    case part
    case whole

    /// Length (three octets), type, flags, stream (RFC 9113 section 4.1).
    private static let headerLength = 9
    private static let settings: UInt8 = 4
    private static let goAway: UInt8 = 7

    public static func look(at bytes: Span<UInt8>) -> HTTP2Preface {
        // Frames of these types are short. No response begins with NUL.
        guard bytes.count > 0, bytes[0] == 0 else { return .none }
        if bytes.count > 3, bytes[3] != settings, bytes[3] != goAway { return .none }
        guard bytes.count >= headerLength else { return .part }
        // The first bit is reserved and ignored.
        let isOfConnection = bytes[5] & 0x7f == 0 && bytes[6] == 0 && bytes[7] == 0 && bytes[8] == 0
        return isOfConnection ? .whole : .none
    }
}
