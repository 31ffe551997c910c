internal import Encoding

/// The parts of a request, as sent, from which derived components are computed.
public struct RequestParts: ~Escapable {
    let method: Span<UInt8>
    let authority: Span<UInt8>
    let path: Span<UInt8>
    let query: Span<UInt8>

    /// Creates a value.
    ///
    /// - Parameters:
    ///   - method: Case-sensitive, as sent.
    ///   - authority: `host` or `host:port`. The scheme is always https.
    ///   - path: Percent-encoded as sent.
    ///   - query: As sent without its `?`. Empty if the target has none.
    @_lifetime(copy method, copy authority, copy path, copy query)
    public init(method: Span<UInt8>, authority: Span<UInt8>, path: Span<UInt8>, query: Span<UInt8>) {
        self.method = method
        self.authority = authority
        self.path = path
        self.query = query
    }
}

/// The signature base of a request (RFC 9421 section 2.5), which the device signs as a hash.
///
/// One value serves all requests of a connection and reuses its memory.
public struct SignatureBase: Sendable {
    /// The bytes of the last base that was built without a fault.
    public private(set) var bytes: [UInt8] = []

    public init() {}

    /// Builds the base of a request.
    ///
    /// - Parameters:
    ///   - input: The covered components and the last line.
    ///   - fields: Adds the values of a field's lines in the order of the message, or none if it is absent. It is
    ///     called once for every covered field, with the name in lower case.
    /// - Throws: `fieldAbsent`, or `malformed` of `request`. `bytes` is then empty.
    public mutating func build(
        _ input: borrowing SignatureInput, of request: borrowing RequestParts,
        fields: (_ name: Span<UInt8>, _ value: inout CombinedField) -> Void
    ) throws(ProofFault) {
        try build(
            input.components, named: input.signatureParameters.span, parameters: input.signatureParameters,
            of: request, fields: fields)
    }

    /// Builds the base from parsed components.
    ///
    /// - Parameters:
    ///   - text: The bytes to which the components' ranges refer.
    ///   - parameters: The value of `@signature-params`.
    mutating func build(
        _ components: [SignatureInput.Covered], named text: Span<UInt8>, parameters: [UInt8],
        of request: borrowing RequestParts, fields: (_ name: Span<UInt8>, _ value: inout CombinedField) -> Void
    ) throws(ProofFault) {
        // The bytes are moved out, so that a fault leaves no incomplete base.
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
                // An empty path means "/" (RFC 9421 section 2.2.6).
                if request.path.isEmpty { base.append(UInt8(ascii: "/")) }
                try Self.append(derived: request.path, &base)
            case .query:
                Self.begin(KnownComponent.query.name.span, &base)
                // The question mark is part of the value, even without a query (RFC 9421 section 2.2.7).
                base.append(UInt8(ascii: "?"))
                try Self.append(derived: request.query, &base)
            case .field(let range):
                let name = text.extracting(range)
                Self.begin(name, &base)
                var value = CombinedField(appendingTo: base)
                base = []
                fields(name, &value)
                guard !value.isAbsent else { throw .fieldAbsent(place: place) }
                guard value.isFit else { throw .malformed(.request, .componentValue) }
                base = value.taken()
            }
            base.append(Self.lineFeed)
        }
        Self.begin(Self.signatureParameters.span, &base)
        base.append(contentsOf: parameters)
        bytes = base
    }

    /// Appends `"name": `.
    private static func begin(_ name: Span<UInt8>, _ base: inout [UInt8]) {
        base.append(addingCapacity: name.count + 4) { room in
            room.append(FieldByte.quote)
            room.append(name)
            room.append(FieldByte.quote)
            room.append(FieldByte.colon)
            room.append(FieldByte.space)
        }
    }

    private static func append(derived value: Span<UInt8>, _ base: inout [UInt8]) throws(ProofFault) {
        guard value.firstMarked(from: 0, { $0.marksInDerived }) == value.count else {
            throw .malformed(.request, .componentValue)
        }
        base.append(value)
    }

    /// Appends the host in lower case, without https's default port (RFC 9421 section 2.2.3, RFC 9110 section 4.2.3).
    private static func append(authority: Span<UInt8>, _ base: inout [UInt8]) throws(ProofFault) {
        let start = base.count
        guard !authority.isEmpty else { throw .malformed(.request, .componentValue) }
        try append(derived: authority, &base)
        for index in start..<base.count { base[index] = FieldByte.lowercased(base[index]) }
        // The host of `[::1:443]` ends in a bracket, so a text that ends in `:443` has a port.
        for suffix in defaultPorts where base.count - start > suffix.count {
            let end = base.count - suffix.count
            guard base.span.extracting(end...).isSame(as: suffix) else { continue }
            base.removeLast(suffix.count)
            return
        }
    }

    private static let lineFeed: UInt8 = 0x0a
    private static let signatureParameters = Array("@signature-params".utf8)
    /// The spellings of https's default port after a host.
    private static let defaultPorts = [":443", ":"].map { Array($0.utf8) }
}

/// The combined values of all lines of one field (RFC 9421 section 2.1). White space around each value is removed, and
/// a comma and a space join them. RFC 8941 section 4.2 combines structured fields in the same way.
public struct CombinedField: ~Copyable, Sendable {
    /// Existing bytes up to `start`, followed by the combined value.
    var bytes: [UInt8]
    private var start: Int
    private var lines = 0

    public init() {
        bytes = []
        start = 0
    }

    /// Creates a value that is appended to existing bytes.
    init(appendingTo bytes: consuming [UInt8]) {
        start = bytes.count
        self.bytes = bytes
    }

    /// Whether no line was added. A field with one empty line is present.
    public var isAbsent: Bool { lines == 0 }

    /// The combined value.
    public var value: Span<UInt8> {
        @_lifetime(borrow self)
        get { bytes.span.extracting(start...) }
    }

    /// Whether a signature base can contain the value. It has neither obs-text nor folded lines (RFC 9421 section 2.5).
    /// A line end would begin a component that is not covered.
    var isFit: Bool { value.firstMarked(from: 0) { $0.marksInValue } == value.count }

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
        bytes.append(line.extracting(first..<end))
    }

    /// Clears the value for the next field.
    public mutating func removeAll() {
        bytes.removeAll(keepingCapacity: true)
        start = 0
        lines = 0
    }

    /// Returns all bytes, including those that existed before.
    consuming func taken() -> [UInt8] { bytes }
}
