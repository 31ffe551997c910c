/// What a derived component is taken from: the parts of a request, as the client sent them.
public struct RequestParts: ~Escapable {
    let method: Span<UInt8>
    let authority: Span<UInt8>
    let path: Span<UInt8>
    let query: Span<UInt8>

    /// - Parameters:
    ///   - method: case-sensitive, as sent.
    ///   - authority: `host` or `host:port`; the scheme is always https.
    ///   - path: percent-encoded as sent.
    ///   - query: as sent without its `?`; empty if the target has none.
    @_lifetime(copy method, copy authority, copy path, copy query)
    public init(method: Span<UInt8>, authority: Span<UInt8>, path: Span<UInt8>, query: Span<UInt8>) {
        self.method = method
        self.authority = authority
        self.path = path
        self.query = query
    }
}

/// The signature base of a request (RFC 9421 section 2.5): what is hashed, and signed by the device.
///
/// One value serves all requests of a connection and keeps its room.
public struct SignatureBase: Sendable {
    /// The bytes of the last base that was built without a fault.
    public private(set) var bytes: [UInt8] = []

    public init() {}

    /// - Parameters:
    ///   - input: which components, and the last line.
    ///   - fields: called once for every covered field, with its name in lower case. It adds the value of every line of
    ///     that name in the order of the message, or none if the field is absent.
    /// - Throws: `fieldAbsent`, or `malformed` of `request`; `bytes` is empty then.
    public mutating func build(
        _ input: borrowing SignatureInput, of request: borrowing RequestParts,
        fields: (_ name: Span<UInt8>, _ value: inout CombinedField) -> Void
    ) throws(ProofFault) {
        try build(
            input.components, named: input.signatureParameters.span, parameters: input.signatureParameters,
            of: request, fields: fields)
    }

    /// - Parameters:
    ///   - text: what the components' ranges are of.
    ///   - parameters: the value of `@signature-params`.
    mutating func build(
        _ components: [SignatureInput.Covered], named text: Span<UInt8>, parameters: [UInt8],
        of request: borrowing RequestParts, fields: (_ name: Span<UInt8>, _ value: inout CombinedField) -> Void
    ) throws(ProofFault) {
        // Moved out, so that a fault leaves no half of a base behind.
        var base = bytes
        bytes = []
        base.removeAll(keepingCapacity: true)
        for place in components.indices {
            switch components[place] {
            case .method:
                Self.begin(KnownComponent.method.name.span, &base)
                guard !request.method.isEmpty else { throw .malformed(.request, .componentValue) }
                try Self.append(derived: request.method, &base)
            case .authority:
                Self.begin(KnownComponent.authority.name.span, &base)
                try Self.append(authority: request.authority, &base)
            case .path:
                Self.begin(KnownComponent.path.name.span, &base)
                // An empty path means the same as "/" (RFC 9421 section 2.2.6).
                if request.path.isEmpty { base.append(UInt8(ascii: "/")) }
                try Self.append(derived: request.path, &base)
            case .query:
                Self.begin(KnownComponent.query.name.span, &base)
                // The question mark is part of the value, and all of it where there is no query (RFC 9421 section 2.2.7).
                base.append(UInt8(ascii: "?"))
                try Self.append(derived: request.query, &base)
            case .field(let range):
                let name = text.extracting(range)
                Self.begin(name, &base)
                var value = CombinedField(appendingTo: base)
                base = []
                fields(name, &value)
                guard !value.isAbsent else { throw .fieldAbsent(place: place) }
                guard !value.isUnfit else { throw .malformed(.request, .componentValue) }
                base = value.taken()
            }
            base.append(Self.lineFeed)
        }
        Self.begin(Self.signatureParameters.span, &base)
        base.append(contentsOf: parameters)
        bytes = base
    }

    /// `"name": `.
    private static func begin(_ name: Span<UInt8>, _ base: inout [UInt8]) {
        let start = base.count
        base.append(contentsOf: repeatElement(FieldByte.quote, count: name.count + 4))
        base.write(name, at: start + 1)
        base[start + name.count + 2] = FieldByte.colon
        base[start + name.count + 3] = FieldByte.space
    }

    private static func append(derived value: Span<UInt8>, _ base: inout [UInt8]) throws(ProofFault) {
        guard value.firstMarked(from: 0, { $0.marksInDerived }) == value.count else {
            throw .malformed(.request, .componentValue)
        }
        base.append(value)
    }

    /// The host in lower case, and no port where it is the default one of https (RFC 9421 section 2.2.3, RFC 9110 section
    /// 4.2.3).
    private static func append(authority: Span<UInt8>, _ base: inout [UInt8]) throws(ProofFault) {
        let start = base.count
        guard !authority.isEmpty else { throw .malformed(.request, .componentValue) }
        try append(derived: authority, &base)
        for index in start..<base.count { base[index] = FieldByte.lowercased(base[index]) }
        // The host of `[::1:443]` ends in a bracket, so what ends in `:443` has a port.
        for suffix in [defaultPort, emptyPort] where base.count - start > suffix.count {
            let end = base.count - suffix.count
            guard base.span.extracting(end...).isSame(as: suffix) else { continue }
            base.removeLast(suffix.count)
            return
        }
    }

    private static let lineFeed: UInt8 = 0x0a
    private static let signatureParameters = Array("@signature-params".utf8)
    private static let defaultPort = Array(":443".utf8)
    private static let emptyPort = Array(":".utf8)
}

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
