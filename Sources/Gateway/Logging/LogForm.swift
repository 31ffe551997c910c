internal import Bytes
internal import EventLoop

/// How a line of the access log is written, member by member: as a JSON object, or for a reader at a terminal.
///
/// Both forms have the same members, and one line each whatever a client sent: its text is always quoted and escaped.
///
///     {"time":"2026-11-21T07:12:11.209Z","event":"request","client":"192.0.2.0/24","status":200}
///     2026-11-21T07:12:11.209Z request client=192.0.2.0/24 status=200
struct LogForm {
    /// The members, in the order in which they stand in a line. Their names are these in snake case.
    enum Member: Int, CaseIterable {
        case client, clientAddress, listener, host, serverName
        case requestId, traceId
        case route, method, `protocol`, path, query, userAgent
        case decision, status, denial, fault, detail
        case device, app, upstream, server
        case requestBytes, responseBytes
        case handshakeUs, verificationUs, commitUs, upstreamUs, durationUs
        case tunnelEnd, aborted
        case blocks, lines

        var name: String {
            String(describing: self).reduce(into: "") { $0 += $1.isUppercase ? "_" + $1.lowercased() : String($1) }
        }
    }

    private let isJSON: Bool
    /// What stands before each value, its opening quote included.
    private var prefixes = LogPieces()

    init(isJSON: Bool) {
        self.isJSON = isJSON
        for member in Member.allCases { prefixes.add(isJSON ? ",\"\(member.name)\":\"" : " \(member.name)=") }
    }

    private func prefix(_ member: Member, quoting: Bool = false, to line: inout ByteBuffer) {
        prefixes.append(member.rawValue, without: isJSON && !quoting ? 1 : 0, to: &line)
    }

    // MARK: - The line

    /// What the lines of one second begin with: the time, up to the point before the milliseconds.
    func opening(_ time: CivilTime) -> [UInt8] {
        Array((isJSON ? "{\"time\":\"\(time.timestamp)." : "\(time.timestamp).").utf8)
    }

    /// - Parameters:
    ///   - opening: of the line's second.
    ///   - milliseconds: below 1,000.
    ///   - event: of letters and `_`.
    func begin(_ opening: [UInt8], milliseconds: UInt64, _ event: StaticString, to line: inout ByteBuffer) {
        let between: StaticString = isJSON ? "Z\",\"event\":\"" : "Z "
        line.append(opening)
        if milliseconds < 100 { line.append(milliseconds < 10 ? "00" : "0") }
        line.append(decimal: milliseconds)
        line.append(between)
        line.append(event)
        if isJSON { line.append("\"") }
    }

    func end(_ line: inout ByteBuffer) {
        let end: StaticString = isJSON ? "}\n" : "\n"
        line.append(end)
    }

    // MARK: - Members

    /// A word of ours, in which JSON would escape nothing.
    func word(_ member: Member, _ word: StaticString, to line: inout ByteBuffer) {
        quoted(member, to: &line) { $0.append(word) }
    }

    func word(_ member: Member, _ word: [UInt8], to line: inout ByteBuffer) {
        quoted(member, to: &line) { $0.append(word) }
    }

    /// A member with a word that many lines have, made once.
    func piece(_ member: Member, _ word: String) -> String {
        isJSON ? ",\"\(member.name)\":\"\(word)\"" : " \(member.name)=\(word)"
    }

    /// 16 hexadecimal digits.
    func identifier(_ member: Member, _ id: UInt64, to line: inout ByteBuffer) {
        quoted(member, to: &line) { $0.append(hex: id, digits: 16) }
    }

    /// 32 hexadecimal digits.
    func identifier(_ member: Member, _ id: TraceID, to line: inout ByteBuffer) {
        quoted(member, to: &line) {
            $0.append(hex: id.high, digits: 16)
            $0.append(hex: id.low, digits: 16)
        }
    }

    func number(_ member: Member, _ number: UInt64, to line: inout ByteBuffer) {
        prefix(member, to: &line)
        line.append(decimal: number)
    }

    /// In microseconds.
    func duration(_ member: Member, _ span: TimeSpan?, to line: inout ByteBuffer) {
        guard let span else { return }
        number(member, UInt64(max(0, span.nanoseconds / 1_000)), to: &line)
    }

    func flag(_ member: Member, to line: inout ByteBuffer) {
        prefix(member, to: &line)
        line.append("true")
    }

    /// Text with a part from outside: quoted and escaped in both forms, and cut.
    func text(_ member: Member, _ text: String, to line: inout ByteBuffer) {
        prefix(member, to: &line)
        var shown = String.UnicodeScalarView()
        for scalar in text.unicodeScalars.prefix(Self.longestText / 2) {
            // ASCII is escaped below.
            shown.append(scalar.isASCII || scalar.isPlain ? scalar : " ")
        }
        line.appendJSON(String(shown))
    }

    /// The same for what a client sent: any bytes.
    func text(_ member: Member, _ text: [UInt8], to line: inout ByteBuffer) {
        prefix(member, to: &line)
        line.appendJSON(bytes: text.span.extracting(first: min(text.count, Self.longestText)))
    }

    /// In octets, which six-fold, for each may have to be escaped, still leave room in a block.
    private static let longestText = 1_024

    private func quoted(_ member: Member, to line: inout ByteBuffer, _ value: (inout ByteBuffer) -> Void) {
        prefix(member, quoting: true, to: &line)
        value(&line)
        if isJSON { line.append("\"") }
    }
}
