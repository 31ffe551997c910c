internal import Upstream

/// The last list of a service as it is kept in a file: lines about it, an empty line, and the text of the list.
struct StatusListCopy: Equatable {
    /// The URL from which it came.
    let source: String
    /// The time at which the source last confirmed it, in seconds since 1970.
    let confirmedAt: Int64
    let validators: ContentValidators
    let text: [UInt8]

    /// The first line, with the version of the form.
    private static let title = "attestgate status list 1"

    init(source: String, confirmedAt: Int64, validators: ContentValidators, text: [UInt8]) {
        self.source = source
        self.confirmedAt = confirmedAt
        self.validators = validators
        self.text = text
    }

    /// Parses a file.
    ///
    /// - Returns: nil if the bytes have another form.
    init?(_ bytes: [UInt8]) {
        guard let end = bytes.firstRange(of: Array("\n\n".utf8)) else { return nil }
        let lines = String(decoding: bytes[..<end.lowerBound], as: UTF8.self).split(separator: "\n")
        guard lines.first.map(String.init) == Self.title else { return nil }
        var values: [Substring: String] = [:]
        for line in lines.dropFirst() {
            guard let colon = line.firstRange(of: ": ") else { return nil }
            values[line[..<colon.lowerBound]] = String(line[colon.upperBound...])
        }
        guard let source = values["url"], let confirmedAt = values["confirmed"].flatMap({ Int64($0) }), confirmedAt >= 0
        else { return nil }
        self.init(
            source: source, confirmedAt: confirmedAt,
            validators: ContentValidators(entityTag: values["etag"], lastModified: values["last-modified"]),
            text: Array(bytes[end.upperBound...]))
    }

    /// The content of the file.
    var bytes: [UInt8] {
        var lines = [Self.title, "url: \(source)", "confirmed: \(confirmedAt)"]
        // Neither has a line end.
        if let tag = validators.entityTag { lines.append("etag: \(tag)") }
        if let time = validators.lastModified { lines.append("last-modified: \(time)") }
        return Array((lines.joined(separator: "\n") + "\n\n").utf8) + text
    }
}
