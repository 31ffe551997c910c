package import Bytes
package import Encoding
package import EventLoop

/// The form of the access log's lines: a JSON object, or text for a reader at a terminal.
///
/// Both forms have the same members. An entry is one line whatever a client sent, because text from outside is always
/// quoted and escaped.
///
///     {"time":"2026-11-21T07:12:11.209Z","event":"request","client":"192.0.2.0/24","status":200}
///     2026-11-21T07:12:11.209Z request client=192.0.2.0/24 status=200
package struct LogForm {
    /// The members of a line in their order. A member's name is that of its case in snake case.
    package enum Member: Int, CaseIterable {
        case client, clientAddress, listener, host, serverName
        case requestId, traceId
        case route, method, `protocol`, requestedHost, path, query, userAgent
        case decision, status, denial, fault, wouldDeny, simulated, detail
        case device, app, upstream, server
        case requestBytes, responseBytes
        case handshakeUs, keyExchange, verificationUs, commitUs, upstreamUs, durationUs
        case tunnelEnd, aborted
        case blocks, lines

        var name: String {
            String(describing: self).reduce(into: "") { $0 += $1.isUppercase ? "_" + $1.lowercased() : String($1) }
        }
    }

    private let isJSON: Bool
    /// The text before each value, with its opening quote.
    private var prefixes = LogPieces()

    package init(isJSON: Bool) {
        self.isJSON = isJSON
        for member in Member.allCases { prefixes.add(isJSON ? ",\"\(member.name)\":\"" : " \(member.name)=") }
    }

    private func prefix(_ member: Member, quoting: Bool = false, to line: inout ByteBuffer) {
        prefixes.append(member.rawValue, without: isJSON && !quoting ? 1 : 0, to: &line)
    }

    // MARK: - The line

    /// Returns the beginning of all lines of one second: the time up to the point before the milliseconds.
    package func opening(_ time: CalendarTime) -> [UInt8] {
        Array((isJSON ? "{\"time\":\"\(time.timestamp)." : "\(time.timestamp).").utf8)
    }

    /// Begins a line.
    ///
    /// - Parameters:
    ///   - opening: The opening of the line's second.
    ///   - milliseconds: Less than 1,000.
    ///   - event: Letters and `_`.
    package func begin(_ opening: [UInt8], milliseconds: UInt64, _ event: StaticString, to line: inout ByteBuffer) {
        let between: StaticString = isJSON ? "Z\",\"event\":\"" : "Z "
        line.append(opening)
        if milliseconds < 100 { line.append(milliseconds < 10 ? "00" : "0") }
        line.append(decimal: milliseconds)
        line.append(between)
        line.append(event)
        if isJSON { line.append("\"") }
    }

    package func end(_ line: inout ByteBuffer) {
        let end: StaticString = isJSON ? "}\n" : "\n"
        line.append(end)
    }

    // MARK: - Members

    /// Writes a member with a word in which JSON escapes nothing.
    package func word(_ member: Member, _ word: StaticString, to line: inout ByteBuffer) {
        quoted(member, to: &line) { $0.append(word) }
    }

    package func word(_ member: Member, _ word: [UInt8], to line: inout ByteBuffer) {
        quoted(member, to: &line) { $0.append(word) }
    }

    /// Returns a member with a word that many lines contain. It is made once and stored in `LogPieces`.
    package func piece(_ member: Member, _ word: String) -> String {
        isJSON ? ",\"\(member.name)\":\"\(word)\"" : " \(member.name)=\(word)"
    }

    /// Writes a member with 16 hexadecimal digits.
    package func identifier(_ member: Member, _ id: UInt64, to line: inout ByteBuffer) {
        quoted(member, to: &line) { $0.append(hex: id, digits: 16) }
    }

    /// Writes a member with 32 hexadecimal digits.
    package func identifier(_ member: Member, _ id: TraceID, to line: inout ByteBuffer) {
        quoted(member, to: &line) {
            $0.append(hex: id.high, digits: 16)
            $0.append(hex: id.low, digits: 16)
        }
    }

    package func number(_ member: Member, _ number: UInt64, to line: inout ByteBuffer) {
        prefix(member, to: &line)
        line.append(decimal: number)
    }

    /// Writes a duration in microseconds. A negative one is written as 0.
    package func duration(_ member: Member, _ span: TimeSpan?, to line: inout ByteBuffer) {
        guard let span else { return }
        number(member, UInt64(max(0, span.nanoseconds / 1_000)), to: &line)
    }

    package func flag(_ member: Member, to line: inout ByteBuffer) {
        prefix(member, to: &line)
        line.append("true")
    }

    /// Writes text that may contain text from outside: quoted and escaped in both forms, and cut.
    package func text(_ member: Member, _ text: String, to line: inout ByteBuffer) {
        prefix(member, to: &line)
        var shown = String.UnicodeScalarView()
        for scalar in text.unicodeScalars.prefix(Self.longestText / 2) {
            // ASCII is escaped below.
            shown.append(scalar.isASCII || scalar.isPlain ? scalar : " ")
        }
        line.appendJSON(String(shown))
    }

    /// Writes any bytes of a client: quoted and escaped in both forms, and cut.
    package func text(_ member: Member, _ text: [UInt8], to line: inout ByteBuffer) {
        prefix(member, to: &line)
        line.appendJSON(bytes: text.span.extracting(first: min(text.count, Self.longestText)))
    }

    /// Limit in bytes. With six bytes for each escaped byte, all texts of a line still fit in a buffer.
    private static let longestText = 1_024

    private func quoted(_ member: Member, to line: inout ByteBuffer, _ value: (inout ByteBuffer) -> Void) {
        prefix(member, quoting: true, to: &line)
        value(&line)
        if isJSON { line.append("\"") }
    }
}

/// Parts of lines that many lines contain, in one array. Writing one changes no reference count.
package struct LogPieces {
    private var text: [UInt8] = []
    private var ends = [0]

    package init() {}

    /// Adds a piece. Indices begin at 0.
    package mutating func add(_ piece: String) {
        text += Array(piece.utf8)
        ends.append(text.count)
    }

    /// Writes a piece.
    ///
    /// - Parameter omitted: The number of bytes at its end that are left out.
    package func append(_ index: Int, without omitted: Int = 0, to line: inout ByteBuffer) {
        line.append(text.span.extracting(ends[index]..<ends[index + 1] - omitted))
    }
}

/// A part of lines that belongs to a connection. It is stored inline: between two requests of a connection an array
/// leaves the processor's cache, and its reference count then costs more than the rest of the line.
package struct ConnectionPiece {
    private var text = InlineArray<40, UInt8>(repeating: 0)
    private var count = 0

    /// Creates an empty piece.
    package init() {}

    /// Creates a piece.
    ///
    /// - Parameter piece: At most 40 bytes.
    package init(_ piece: String) {
        for byte in piece.utf8 {
            text[count] = byte
            count += 1
        }
    }

    package func append(to line: inout ByteBuffer) {
        line.append(text.span.extracting(first: count))
    }
}
