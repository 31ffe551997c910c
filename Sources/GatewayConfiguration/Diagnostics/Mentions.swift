/// Where a conf file names what lies outside of it. So whoever finds a certificate to be of no use, or an address taken, can
/// say which line is about that.
public struct Mentions: Equatable, Sendable {
    private struct Mention: Equatable, Sendable {
        let file: String
        let place: Place
        let excerpt: Excerpt?
    }

    /// The conf file.
    private let file: String
    private var mentions: [Subject: Mention] = [:]

    init(file: String) {
        self.file = file
    }

    /// What is named several times is at fault wherever that is; the first place is told.
    mutating func add(_ subject: Subject, at place: Place, in source: SourceText) {
        guard mentions[subject] == nil else { return }
        mentions[subject] = Mention(file: source.file, place: place, excerpt: source.excerpt(at: place))
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
