/// The places where a conf file names external things. A check that finds a certificate unusable, or an address taken,
/// can then report the line.
public struct SourceReferences: Equatable, Sendable {
    private struct SourceReference: Equatable, Sendable {
        let file: String
        let place: Place
        let excerpt: Excerpt?
    }

    /// The conf file.
    private let file: String
    private var mentions: [Subject: SourceReference] = [:]

    init(file: String) {
        self.file = file
    }

    /// A subject that is named several times is at fault at every place; the first place is reported.
    mutating func add(_ subject: Subject, at place: Place, in source: SourceText) {
        guard mentions[subject] == nil else { return }
        mentions[subject] = SourceReference(file: source.file, place: place, excerpt: source.excerpt(at: place))
    }

    /// The conf file, and every file that it names: those it includes too.
    public var files: Set<String> {
        var files: Set<String> = [file]
        for (subject, mention) in mentions {
            files.insert(mention.file)
            if case .file(let path) = subject { files.insert(path) }
        }
        return files
    }

    /// A diagnostic with the place of the subject, or of the conf file as a whole where that is not named.
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

/// What a conf file names outside of itself, and what may turn out to be at fault only when it is used.
public enum Subject: Hashable, Sendable {
    /// By its path, as it is opened.
    case file(String)
    /// A file where a private key should be, or a revocation list: the same one may be named elsewhere for what it is.
    case privateKey(String)
    case revocationList(String)
    /// One to listen on, as the conf file writes addresses.
    case address(String)
    /// One of an upstream, or one that is asked something: its name or address, and its port.
    case server(String)

    /// What it is wherever it is named.
    var anywhere: Subject {
        switch self {
        case .privateKey(let path), .revocationList(let path): .file(path)
        case .file, .address, .server: self
        }
    }
}
