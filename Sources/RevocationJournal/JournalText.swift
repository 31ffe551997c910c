internal import Encoding
package import Registry
package import Vocabulary

/// The text format of the revocation journal: a header, then a line for each entry, the oldest first.
///
///     attestgate revocations 1
///     revoked <64 hexadecimal digits> <seconds since 1970> <check>
///
/// The check is the CRC-32 of the line's number, a space, and the line up to the space before the check. It detects
/// damaged, missing and moved lines.
enum JournalText {
    static let header = "attestgate revocations 1\n"

    /// Formats an entry.
    ///
    /// - Parameter number: The number of the line. The header is line 1.
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

    /// Parses an entry.
    ///
    /// - Parameter line: The line without its end.
    /// - Returns: nil if the line is damaged.
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
        // Each entry has only one spelling.
        guard let entry, self.line(entry, number: number).utf8.dropLast().elementsEqual(line) else { return nil }
        return entry
    }

    /// The result of reading a journal.
    struct Content: Equatable {
        var revocations = Revocations()
        /// The number of lines, with the header.
        var lines = 1
        /// The length of the undamaged part in bytes. The rest belongs to an interrupted append.
        var length = 0
        /// The undamaged part with its checksum. It is set when everything was read.
        var extent = JournalExtent()
    }

    enum Damage: Error, Equatable {
        /// The number of the first damaged line.
        case line(Int)
        /// The header is that of a later version.
        case newer
    }

    /// Reads a journal.
    ///
    /// - Parameter marked: The length that was durable when the mark was written. Nil without a mark.
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
        // An interrupted append is after everything that was marked. Without a mark it is after all undamaged lines.
        let isTorn = marked.map { content.length >= $0 } ?? !isWell(bytes, after: content)
        guard isTorn else { throw .line(content.lines + 1) }
        return content
    }

    private static func nextLine(_ bytes: [UInt8], _ start: Int) -> (ArraySlice<UInt8>, end: Int)? {
        guard let end = bytes[start...].firstIndex(of: UInt8(ascii: "\n")) else { return nil }
        return (bytes[start..<end], end + 1)
    }

    /// Returns whether any line after the first damaged one is undamaged.
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

/// An entry of the revocation journal. Times are in seconds since 1970-01-01T00:00:00Z.
///
/// Entries contain keys instead of the store's numbers, because an import assigns new numbers.
package enum WitnessEntry: Equatable, Sendable {
    /// The device of a hardware key was revoked.
    case revoked(KeyID, at: Int64)
    /// The device of a hardware key was restored.
    case restored(KeyID, at: Int64)
    /// The binding of an mTLS key has ended, or will end at a future time.
    case ended(KeyID, at: Int64)
    /// Devices of a person, given by a pseudonym, are no longer admitted.
    case barred(Fingerprint, at: Int64)
}

extension WitnessEntry {
    /// Returns the entries for the current state of a device.
    package static func all(of details: DeviceDetails, at time: Int64) -> [WitnessEntry] {
        let key = details.device.identity.hardwareKey
        return [details.device.revokedAt.map { .revoked(key, at: $0) } ?? .restored(key, at: time)]
            + details.bindings.compactMap { binding in
                (binding.endedAt ?? binding.endsAt).map { .ended(binding.key, at: $0) }
            }
    }
}

extension RegistryCommand {
    /// Returns the entries of the revocation journal for an operation that succeeded. The journal skips known entries.
    ///
    /// - Parameters:
    ///   - reply: The reply to this command.
    ///   - time: The time of the operation, in seconds since 1970-01-01T00:00:00Z.
    package func witnessEntries(for reply: RegistryReply, at time: Int64) -> [WitnessEntry] {
        switch (self, reply) {
        case (.register, .device(let details)), (.revoke, .device(let details)), (.restore, .device(let details)),
            (.endBinding, .device(let details)):
            WitnessEntry.all(of: details, at: time)
        case (.bindKey, .keyBinding(.bound(let details, _))): WitnessEntry.all(of: details, at: time)
        case (.revokeSubject(let subject), .revoked(let devices)):
            [.barred(subject, at: time)] + devices.flatMap { WitnessEntry.all(of: $0, at: time) }
        default: []
        }
    }
}

/// The content of a journal, as the result of all its entries in order.
struct Revocations: Equatable, Sendable {
    private(set) var revoked: [KeyID: Int64] = [:]
    private(set) var ended: [KeyID: Int64] = [:]
    private(set) var barred: [Fingerprint: Int64] = [:]

    /// Returns whether an entry adds information.
    func isNews(_ entry: WitnessEntry) -> Bool {
        switch entry {
        case .revoked(let key, _): revoked[key] == nil
        case .restored(let key, _): revoked[key] != nil
        // An earlier end replaces a later one.
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

    /// Returns whether this has an entry that `said` lacks, or an earlier end.
    func saysMore(than said: Revocations) -> Bool { entries.contains(where: said.isNews) }

    var count: Int { revoked.count + ended.count + barred.count }

    /// The minimal entries with the same result.
    var entries: some Sequence<WitnessEntry> {
        let revoked = revoked.lazy.map { WitnessEntry.revoked($0.key, at: $0.value) }
        let ended = ended.lazy.map { WitnessEntry.ended($0.key, at: $0.value) }
        let barred = barred.lazy.map { WitnessEntry.barred($0.key, at: $0.value) }
        return [AnySequence(revoked), AnySequence(ended), AnySequence(barred)].joined()
    }
}

/// CRC-32 of IEEE 802.3, as in zlib. It detects accidental damage, but not manipulation.
enum Checksum {
    private static let table: [UInt32] = (0..<256).map { byte in
        (0..<8).reduce(UInt32(byte)) { value, _ in value & 1 == 1 ? 0xEDB8_8320 ^ (value >> 1) : value >> 1 }
    }

    static func of(_ bytes: some Sequence<UInt8>) -> UInt32 { of(bytes, behind: 0) }

    /// Continues a checksum.
    ///
    /// - Parameter sum: The checksum of the bytes before these, or 0.
    static func of(_ bytes: some Sequence<UInt8>, behind sum: UInt32) -> UInt32 {
        ~bytes.reduce(~sum) { sum, byte in table[Int(UInt8(truncatingIfNeeded: sum) ^ byte)] ^ (sum >> 8) }
    }

    /// Returns the checksum as eight hexadecimal digits.
    static func text(of bytes: some Sequence<UInt8>) -> String { text(of(bytes)) }

    static func text(_ sum: UInt32) -> String {
        Hexadecimal.encode(sum, digits: 8)
    }
}
