internal import Encoding

/// The scanner of an HTTP/1.1 head: its start line, then its fields up to the empty line. Requests and responses differ
/// in their start lines and in what they take from the fields.
///
/// Each call gets all received bytes of the head, always from the first, and continues at the line where the last one
/// stopped. So a head that arrives byte by byte costs no more than one that arrives at once.
protocol HeadScanner {
    associatedtype Head: ScannedHead

    var limits: HeadLimits { get }
    var table: FieldNameTable { get }
    /// The beginning of the next line. 0 before the end of the start line.
    var position: Int { get set }

    /// Parses the start line.
    ///
    /// - Returns: the beginning of the next line, or nil if the start line is not complete yet.
    mutating func parseStartLine(_ bytes: Span<UInt8>, into head: inout Head) throws(MessageFault) -> Int?

    /// Interprets a field and appends it to the head.
    mutating func take(_ field: HeaderField, _ bytes: Span<UInt8>, _ head: inout Head) throws(MessageFault)
}

/// A head that a scanner fills.
protocol ScannedHead {
    var fields: [HeaderField] { get }
}

extension HeadScanner {
    /// Scans lines.
    ///
    /// - Returns: the length of the head, or nil if it is not complete yet.
    @inline(__always)
    mutating func scan(_ bytes: Span<UInt8>, into head: inout Head) throws(MessageFault) -> Int? {
        if position == 0 {
            guard let next = try parseStartLine(bytes, into: &head) else { return nil }
            position = next
        }
        while true {
            switch try FieldLine.parse(bytes, at: position, table: table) {
            case .incomplete: return nil
            case .field(let field, let next):
                guard head.fields.count < limits.fields else { throw .tooManyFields }
                try take(field, bytes, &head)
                position = next
            case .end(let next):
                guard next <= limits.bytes else { throw .headTooLarge }
                return next
            }
        }
    }

    /// Returns whether `HTTP/1.` stands at a position. Eight bytes must exist there.
    func isVersion(_ bytes: Span<UInt8>, at start: Int) -> Bool {
        bytes.word(at: start) & 0x00ff_ffff_ffff_ffff == 0x002e_312f_5054_5448
    }
}
