internal import Registry
internal import Vocabulary

/// Some of an export as a running gateway gives it: lines as in the file, and behind them one that says how to go on.
struct ExportPageDocument {
    let lines: [ArraySlice<UInt8>]
    let end: End

    /// The last line of a page, which is none of the file's.
    struct End: Codable, Equatable {
        /// Which registry this is, in hexadecimal.
        let store: String
        /// Where the next page begins; null if this was the last.
        let next: String?

        func encode(to encoder: any Encoder) throws {
            var members = encoder.container(keyedBy: CodingKeys.self)
            try members.encode(store, forKey: .store)
            // Null where the encoder that Swift makes would leave it out.
            try members.encode(next, forKey: .next)
        }
    }

    static func encode(_ page: ExportPage) -> [UInt8] {
        var content: [UInt8] = []
        for record in page.records {
            content += ExportLine.encode(record)
            content.append(UInt8(ascii: "\n"))
        }
        let end = End(store: Hexadecimal.encode(page.store.bytes), next: page.next?.description)
        return content + JSONText.encode(end) + [UInt8(ascii: "\n")]
    }

    /// - Returns: nil if it is not as a gateway writes it.
    init?(_ content: [UInt8]) {
        var lines = content.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        // Behind the end of the last line there is nothing.
        guard lines.popLast()?.isEmpty == true, let last = lines.popLast(),
            let end = try? JSONText.decode(End.self, from: Array(last))
        else { return nil }
        self.lines = lines
        self.end = end
    }

    /// Where the next page begins, and nil twice if that cannot be read.
    var next: ExportCursor?? {
        guard let text = end.next else { return .some(nil) }
        return ExportCursor(text).map { .some($0) }
    }
}
