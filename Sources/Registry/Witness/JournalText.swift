internal import Vocabulary

/// The revocation journal as it lies in its file: a header, then a line for each entry, the oldest first.
///
///     attestgate revocations 1
///     revoked <64 hexadecimal digits> <seconds since 1970> <check>
///
/// The check is the CRC-32 of the line's number, a space, and the line up to the space before it: a line that is damaged, missing
/// or moved is noticed.
enum JournalText {
    static let header = "attestgate revocations 1\n"

    /// - Parameter number: of the line; that of the header is 1.
    static func line(_ entry: WitnessEntry, number: Int) -> String {
        let body = body(of: entry)
        return "\(body) \(check(body, number))\n"
    }

    private static func check(_ body: String, _ number: Int) -> String {
        Checksum.text(of: "\(number) \(body)".utf8)
    }

    private static func body(of entry: WitnessEntry) -> String {
        switch entry {
        case .revoked(let key, let time): "revoked \(key) \(time)"
        case .restored(let key, let time): "restored \(key) \(time)"
        case .ended(let key, let time): "ended \(key) \(time)"
        case .barred(let subject, let time): "barred \(Hexadecimal.encode(subject.bytes)) \(time)"
        }
    }

    /// - Parameter line: without its end. - Returns: nil if it is not as it was written.
    static func entry(_ line: ArraySlice<UInt8>, number: Int) -> WitnessEntry? {
        let words = line.split(separator: UInt8(ascii: " "), omittingEmptySubsequences: false)
        guard words.count == 4, words[1].count == 64 else { return nil }
        let texts = words.map { String(decoding: $0, as: UTF8.self) }
        guard let bytes = Hexadecimal.decode(texts[1]), let time = Int64(texts[2]) else { return nil }
        let entry: WitnessEntry? =
            switch texts[0] {
            case "revoked": KeyID(digest: bytes.span).map { .revoked($0, at: time) }
            case "restored": KeyID(digest: bytes.span).map { .restored($0, at: time) }
            case "ended": KeyID(digest: bytes.span).map { .ended($0, at: time) }
            case "barred": Fingerprint(bytes).map { .barred($0, at: time) }
            default: nil
            }
        // In its one spelling.
        guard let entry, self.line(entry, number: number).utf8.dropLast().elementsEqual(line) else { return nil }
        return entry
    }

    /// What was read.
    struct Content: Equatable {
        var revocations = Revocations()
        /// Lines, the header among them.
        var lines = 1
        /// Octets up to where all is well; what follows is of an append that was cut short.
        var length = 0
        /// The same with their sum; of use when all was read.
        var extent = JournalExtent()
    }

    enum Damage: Error, Equatable {
        /// The first line that is not as it was written.
        case line(Int)
        /// The header is that of a later version.
        case newer
    }

    /// - Parameter marked: how many octets were durable when the mark was written; nil if there is no mark.
    static func read(_ bytes: [UInt8], marked: Int?) throws(Damage) -> Content {
        guard bytes.starts(with: header.utf8) else {
            throw bytes.starts(with: "attestgate revocations ".utf8) ? .newer : .line(1)
        }
        var content = Content()
        content.length = header.utf8.count
        while let (line, end) = nextLine(bytes, content.length) {
            guard let entry = entry(line, number: content.lines + 1) else { break }
            content.revocations.apply(entry)
            content.lines += 1
            content.length = end
        }
        content.extent = JournalExtent(length: content.length, sum: Checksum.of(bytes.prefix(content.length)))
        guard content.length < bytes.count else { return content }
        // An append that a crash cut short lies behind all that was ever marked. Without a mark: behind all that is well.
        let isTorn = marked.map { content.length >= $0 } ?? !isWell(bytes, after: content)
        guard isTorn else { throw .line(content.lines + 1) }
        return content
    }

    private static func nextLine(_ bytes: [UInt8], _ start: Int) -> (ArraySlice<UInt8>, end: Int)? {
        guard let end = bytes[start...].firstIndex(of: UInt8(ascii: "\n")) else { return nil }
        return (bytes[start..<end], end + 1)
    }

    /// Whether any line is well behind the first that is not.
    private static func isWell(_ bytes: [UInt8], after content: Content) -> Bool {
        var (offset, number) = (content.length, content.lines + 1)
        while let (line, end) = nextLine(bytes, offset) {
            if entry(line, number: number) != nil { return true }
            offset = end
            number += 1
        }
        return false
    }
}

/// What the revocation journal says in a line. Keys, not the store's numbers: those do not survive an import. Times are seconds since
/// 1970-01-01T00:00:00Z.
enum WitnessEntry: Equatable, Sendable {
    /// The device of a hardware key was revoked.
    case revoked(KeyID, at: Int64)
    /// It was made good again.
    case restored(KeyID, at: Int64)
    /// The binding of an mTLS key has ended, or will: the time may lie ahead.
    case ended(KeyID, at: Int64)
    /// Devices of a person, by their pseudonym, are let in no more.
    case barred(Fingerprint, at: Int64)
}

extension WitnessEntry {
    /// What the journal should say of a device.
    static func all(of details: DeviceDetails, at time: Int64) -> [WitnessEntry] {
        let key = details.device.identity.hardwareKey
        return [details.device.revokedAt.map { .revoked(key, at: $0) } ?? .restored(key, at: time)]
            + details.bindings.compactMap { binding in
                (binding.endedAt ?? binding.endsAt).map { .ended(binding.key, at: $0) }
            }
    }
}

/// The whole content of a journal: all its lines applied in order.
struct Revocations: Equatable, Sendable {
    private(set) var revoked: [KeyID: Int64] = [:]
    private(set) var ended: [KeyID: Int64] = [:]
    private(set) var barred: [Fingerprint: Int64] = [:]

    /// Whether a line of it would say more than is said already.
    func isNews(_ entry: WitnessEntry) -> Bool {
        switch entry {
        case .revoked(let key, _): revoked[key] == nil
        case .restored(let key, _): revoked[key] != nil
        // An end that is set earlier than before is news.
        case .ended(let key, let time): ended[key].map { time < $0 } ?? true
        case .barred(let subject, _): barred[subject] == nil
        }
    }

    mutating func apply(_ entry: WitnessEntry) {
        guard isNews(entry) else { return }
        switch entry {
        case .revoked(let key, let time): revoked[key] = time
        case .restored(let key, _): revoked[key] = nil
        case .ended(let key, let time): ended[key] = time
        case .barred(let subject, let time): barred[subject] = time
        }
    }

    /// Whether something of this is not said there, or is to end later there.
    func saysMore(than said: Revocations) -> Bool { entries.contains(where: said.isNews) }

    var count: Int { revoked.count + ended.count + barred.count }

    /// The fewest lines that say the same.
    var entries: some Sequence<WitnessEntry> {
        let revoked = revoked.lazy.map { WitnessEntry.revoked($0.key, at: $0.value) }
        let ended = ended.lazy.map { WitnessEntry.ended($0.key, at: $0.value) }
        let barred = barred.lazy.map { WitnessEntry.barred($0.key, at: $0.value) }
        return [AnySequence(revoked), AnySequence(ended), AnySequence(barred)].joined()
    }
}

/// CRC-32 as of IEEE 802.3 (zlib's): tells damage of a file from what was written. It keeps nobody from writing something else.
enum Checksum {
    private static let table: [UInt32] = (0..<256).map { byte in
        (0..<8).reduce(UInt32(byte)) { value, _ in value & 1 == 1 ? 0xEDB8_8320 ^ (value >> 1) : value >> 1 }
    }

    static func of(_ bytes: some Sequence<UInt8>) -> UInt32 { of(bytes, behind: 0) }

    /// That of some bytes and of these behind them. - Parameter sum: that of the former; 0 if there are none.
    static func of(_ bytes: some Sequence<UInt8>, behind sum: UInt32) -> UInt32 {
        ~bytes.reduce(~sum) { sum, byte in table[Int(UInt8(truncatingIfNeeded: sum) ^ byte)] ^ (sum >> 8) }
    }

    /// Eight hexadecimal digits.
    static func text(of bytes: some Sequence<UInt8>) -> String { text(of(bytes)) }

    static func text(_ sum: UInt32) -> String {
        let digits = String(sum, radix: 16)
        return String(repeating: "0", count: 8 - digits.count) + digits
    }
}
