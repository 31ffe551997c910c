/// The values of all lines of one field, combined as RFC 9421 section 2.1 has it: each without the white space around
/// it, joined by a comma and a space. That is also how structured fields of several lines are parsed (RFC 8941 section
/// 4.2).
public struct CombinedField: ~Copyable, Sendable {
    /// Behind `start`, the combined value.
    var bytes: [UInt8]
    private var start: Int
    private var lines = 0
    /// Whether a line held what a signature base cannot.
    private(set) var isUnfit = false

    public init() {
        bytes = []
        start = 0
    }

    /// Appends to bytes that are there already.
    init(appendingTo bytes: consuming [UInt8]) {
        start = bytes.count
        self.bytes = bytes
    }

    /// Whether no line was added. A line may be empty, and a field of one empty line is present.
    public var isAbsent: Bool { lines == 0 }

    /// The combined value.
    public var value: Span<UInt8> {
        @_lifetime(borrow self)
        get { bytes.span.extracting(start...) }
    }

    /// Adds the value of the next line, in the order of the message.
    public mutating func add(_ line: Span<UInt8>) {
        var first = 0
        var end = line.count
        while first < end, FieldByte.isBlank(line[first]) { first += 1 }
        while end > first, FieldByte.isBlank(line[end - 1]) { end -= 1 }
        if lines > 0 {
            bytes.append(FieldByte.comma)
            bytes.append(FieldByte.space)
        }
        lines += 1
        let value = line.extracting(first..<end)
        // Neither obs-text nor folded lines are in a signature base (RFC 9421 section 2.5), and a line end would begin
        // a component that nobody covered.
        if value.firstMarked(from: 0, { $0.marksInValue }) < value.count { isUnfit = true }
        bytes.append(value)
    }

    /// Empties the value, for the next field.
    public mutating func removeAll() {
        bytes.removeAll(keepingCapacity: true)
        start = 0
        lines = 0
        isUnfit = false
    }

    /// All bytes, with those that were there before.
    consuming func taken() -> [UInt8] { bytes }
}
