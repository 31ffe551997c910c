internal import Bytes

/// A parser of the fields of HTTP/2 responses, which makes a head or trailers in the form of HTTP/1.1's parser. So the
/// further handling does not depend on the version. It is as strict, by RFC 9113 section 8.
///
/// One value serves all responses of a connection, since their blocks come one after the other (section 4.3).
struct ResponseBlock {
    private let fieldLimit: Int
    private let listLimit: Int
    private let table = FieldNameTable.shared

    /// The first fault. Later fields are only counted.
    private(set) var fault: MessageFault?
    /// The decoded bytes, as SETTINGS_MAX_HEADER_LIST_SIZE counts them.
    private(set) var size = 0
    private var framing = FramingFields()
    private var hasStatus = false
    private var hasFields = false

    init(heads: HeadLimits, limits: HTTP2Limits) {
        fieldLimit = heads.fields
        listLimit = limits.headerList
    }

    mutating func begin() {
        fault = nil
        size = 0
        framing = FramingFields()
        hasStatus = false
        hasFields = false
    }

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
        guard fault == nil else { return }
        do throws(MessageFault) {
            guard size <= listLimit else { throw .headTooLarge }
            guard name.isEmpty || name[0] != ByteClass.colon else { return try readStatus(name, value, &head) }
            hasFields = true
            guard head.fields.count < fieldLimit else { throw .tooManyFields }
            let (known, isUnusual) = try StreamField.check(name, value, table)
            if known == .contentLength { try framing.takeContentLength(value) }
            head.fields.append(try Self.append(name, value, known, isUnusual: isUnusual, to: &bytes))
        } catch {
            fault = error
        }
    }

    /// Reads the status (RFC 9113 section 8.3.2).
    private mutating func readStatus(
        _ name: Span<UInt8>, _ value: Span<UInt8>, _ head: inout ResponseHead
    ) throws(MessageFault) {
        guard !hasFields else { throw .pseudoFieldLate }
        guard name.equals(Self.status.span) else { throw .pseudoFieldUnknown }
        guard !hasStatus else { throw .pseudoFieldRepeated }
        hasStatus = true
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
    func finish(_ head: inout ResponseHead, isHead: Bool, endsStream: Bool) throws(MessageFault) -> UInt64? {
        if let fault { throw fault }
        guard hasStatus else { throw .pseudoFieldMissing }
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
        guard fault == nil else { return }
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
            fault = error
        }
    }

    /// Completes the trailers.
    func finishTrailers(endsStream: Bool) throws(MessageFault) {
        if let fault { throw fault }
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
