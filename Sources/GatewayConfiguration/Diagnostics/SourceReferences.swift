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
    private var mentions: [Subject: SourceReference] = [:]

    init(file: String) {
        self.file = file
    }

    /// Adds a place. A subject that is named several times is reported at the first place.
    mutating func add(_ subject: Subject, at place: Place, in source: SourceText) {
        guard mentions[subject] == nil else { return }
        mentions[subject] = SourceReference(file: source.file, place: place, excerpt: source.excerpt(at: place))
    }

    /// The paths of the conf file, of the files that it includes, and of all files that it names.
    public var files: Set<String> {
        var files: Set<String> = [file]
        for (subject, mention) in mentions {
            files.insert(mention.file)
            if case .file(let path) = subject { files.insert(path) }
        }
        return files
    }

    /// Returns a diagnostic at the place of the subject, or about the whole file if the subject has no place.
    public func diagnostic(
        _ severity: Diagnostic.Severity, of subject: Subject?, _ message: String, expected: String? = nil
    ) -> Diagnostic {
        let mention = subject.flatMap { mentions[$0] ?? mentions[$0.anywhere] }
        return Diagnostic(
            severity: severity, file: mention?.file ?? file, place: mention?.place, message: message,
            expected: expected,
            suggestion: nil, excerpt: mention?.excerpt)
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

    /// The subject without its purpose.
    fileprivate var anywhere: Subject {
        switch self {
        case .privateKey(let path), .revocationList(let path): .file(path)
        case .file, .address, .server: self
        }
    }
}
