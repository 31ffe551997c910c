package import Bytes

/// A writer of spans in OTLP's JSON (opentelemetry-proto 1.x, "JSON Protobuf Encoding" of the OTLP specification). Ids
/// are hexadecimal, 64-bit integers are decimal strings, and enumerations are numbers. Each span begins with a comma,
/// for a list with others.
package struct SpanText: ~Copyable {
    private var line = ByteBuffer(pool: BufferPool())
    private var isFirstAttribute = true
    package private(set) var count = 0

    /// The numbers of `opentelemetry.proto.trace.v1.Span.SpanKind`.
    package enum Kind: UInt64 {
        case `internal` = 1
        case server = 2
        case client = 3
    }

    /// The ids and times of a span.
    package struct Identity {
        let trace: (high: UInt64, low: UInt64)
        let id: UInt64
        let parent: UInt64
        let isParentRemote: Bool
        let flags: UInt8
        let kind: Kind
        let start: UInt64
        let end: UInt64

        /// Creates a value.
        ///
        /// - Parameters:
        ///   - parent: 0 if there is none.
        ///   - flags: The flags of the W3C trace context.
        ///   - start: Nanoseconds since 1970, as is `end`.
        package init(
            trace: (high: UInt64, low: UInt64), id: UInt64, parent: UInt64, isParentRemote: Bool, flags: UInt8,
            kind: Kind,
            start: UInt64, end: UInt64
        ) {
            self.trace = trace
            self.id = id
            self.parent = parent
            self.isParentRemote = isParentRemote
            self.flags = flags
            self.kind = kind
            self.start = start
            self.end = end
        }
    }

    package init() {}

    /// Whether some text did not fit. The content must then not be used.
    package var isTorn: Bool { line.overflowed }
    package var byteCount: Int { line.count }

    /// Appends the content to `block` and clears it.
    package mutating func move(to block: inout [UInt8]) {
        line.copy(to: &block)
        clear()
    }

    package mutating func clear() {
        line.rollback(to: 0)
        count = 0
    }

    // MARK: - One span

    /// Writes one span.
    ///
    /// - Parameters:
    ///   - name: Writes the name in letters, digits, spaces and other characters that JSON does not escape.
    ///   - attributes: Writes the attributes.
    package mutating func span(
        _ identity: Identity, name: (inout ByteBuffer) -> Void, isFailed: Bool = false,
        attributes: (inout SpanText) -> Void
    ) {
        line.append(",{\"traceId\":\"")
        line.append(hex: identity.trace.high, digits: 16)
        line.append(hex: identity.trace.low, digits: 16)
        line.append("\",\"spanId\":\"")
        line.append(hex: identity.id, digits: 16)
        if identity.parent != 0 {
            line.append("\",\"parentSpanId\":\"")
            line.append(hex: identity.parent, digits: 16)
        }
        line.append("\",\"flags\":")
        // Bit 8 says that bit 9 is valid. Bit 9 says that the parent is in another process.
        line.append(decimal: UInt64(identity.flags) | 0x100 | (identity.isParentRemote ? 0x200 : 0))
        line.append(",\"name\":\"")
        name(&line)
        line.append("\",\"kind\":")
        line.append(decimal: identity.kind.rawValue)
        line.append(",\"startTimeUnixNano\":\"")
        line.append(decimal: identity.start)
        line.append("\",\"endTimeUnixNano\":\"")
        line.append(decimal: identity.end)
        line.append("\",\"attributes\":[")
        isFirstAttribute = true
        attributes(&self)
        line.append("]")
        // STATUS_CODE_ERROR
        if isFailed { line.append(",\"status\":{\"code\":2}") }
        line.append("}")
        count += 1
    }

    // MARK: - Attributes

    /// Writes an attribute with constant text that JSON does not escape.
    package mutating func attribute(_ key: StaticString, _ value: StaticString) {
        attribute(key, word: { $0.append(value) })
    }

    /// Writes an attribute with text of several pieces that JSON does not escape.
    package mutating func attribute(_ key: StaticString, word: (inout ByteBuffer) -> Void) {
        begin(key, "stringValue")
        line.append("\"")
        word(&line)
        line.append("\"}}")
    }

    /// Writes an attribute with any bytes. Those outside ASCII are interpreted as Latin-1.
    package mutating func attribute(_ key: StaticString, text: [UInt8]) {
        begin(key, "stringValue")
        line.appendJSON(bytes: text.span)
        line.append("}}")
    }

    package mutating func attribute(_ key: StaticString, number: UInt64) {
        begin(key, "intValue")
        line.append("\"")
        line.append(decimal: number)
        line.append("\"}}")
    }

    private mutating func begin(_ key: StaticString, _ type: StaticString) {
        if !isFirstAttribute { line.append(",") }
        isFirstAttribute = false
        line.append("{\"key\":\"")
        line.append(key)
        line.append("\",\"value\":{\"")
        line.append(type)
        line.append("\":")
    }
}
