/// The places where a conf file names external things. A check that finds an unusable certificate or an address in use
/// can then report the line.
public struct SourceReferences: Equatable, Sendable {
    private struct SourceReference: Equatable, Sendable {
        let file: String
        let place: Place
        let excerpt: Excerpt?
    }

    /// The path of the conf file.
    private let file: String
    /// All places of each subject, in the order of reading.
    private var mentions: [Subject: [SourceReference]] = [:]

    init(file: String) {
        self.file = file
    }

    /// Adds a place.
    mutating func add(_ subject: Subject, at place: Place, in source: SourceText) {
        mentions[subject, default: []].append(
            SourceReference(file: source.file, place: place, excerpt: source.excerpt(at: place)))
    }

    /// The paths of the conf file, of the files that it includes, and of all files that it names.
    public var files: Set<String> {
        var files: Set<String> = [file]
        for (subject, places) in mentions {
            files.formUnion(places.map(\.file))
            if case .file(let path) = subject { files.insert(path) }
        }
        return files
    }

    /// Returns a diagnostic at the place of the subject, or about the whole file if the subject has no place.
    public func diagnostic(
        _ severity: Diagnostic.Severity, of subject: Subject?, _ message: String, expected: String? = nil
    ) -> Diagnostic {
        let mention = subject.flatMap { place(of: $0) }
        return Diagnostic(
            severity: severity, file: mention?.file ?? file, place: mention?.place, message: message,
            expected: expected,
            suggestion: nil, excerpt: mention?.excerpt)
    }

    /// Returns the first place of the subject in its section, or in the file if the section is unknown.
    private func place(of subject: Subject) -> SourceReference? {
        let (plain, section) = subject.parts
        guard let places = mentions[plain] ?? mentions[plain.anywhere] else { return nil }
        return places.filter { $0.place >= section ?? $0.place }.min { $0.place < $1.place } ?? places.first
    }
}

/// An external thing that a conf file names, and that may fail only when it is used.
public enum Subject: Hashable, Sendable {
    /// A file, by the path that is opened.
    case file(String)
    /// A file with a private key or a revocation list. The same file may have another purpose elsewhere.
    case privateKey(String)
    case revocationList(String)
    /// An address to listen on, in the notation of the conf file.
    case address(String)
    /// A server of an upstream or of another service: its name or address, and its port.
    case server(String)
    /// The subject as the section that begins at a place names it. Other sections may name it, too.
    indirect case within(Place, Subject)

    /// Returns the subject as the section that begins at the place names it.
    public func within(_ section: Place?) -> Subject {
        if case .within = self { return self }
        return section.map { .within($0, self) } ?? self
    }

    /// The subject by itself, and the section that names it, if known.
    fileprivate var parts: (Subject, section: Place?) {
        if case .within(let section, let subject) = self { (subject, section) } else { (self, nil) }
    }

    /// The subject without its purpose.
    fileprivate var anywhere: Subject {
        switch self {
        case .privateKey(let path), .revocationList(let path): .file(path)
        case .file, .address, .server, .within: self
        }
    }
}
