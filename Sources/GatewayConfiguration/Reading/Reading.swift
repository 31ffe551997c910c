/// The reading of one conf file: its sources, its diagnostics and the file system.
///
/// Every reader of a part gets this object, reports to it what it refuses, and returns nil. So a file with five
/// mistakes is refused once, with five diagnostics.
final class Reading {
    /// The conf file and the files that it includes, in the order of reading.
    private(set) var sources: [SourceText]
    /// The role of this process.
    let role: Role
    /// The section at the top of a conf file.
    let top: Section
    private var files: FileInspector
    private var diagnostics: [Diagnostic] = []
    /// The external things named so far.
    private(set) var mentions: SourceReferences
    private var omitted = 0

    /// The maximum number of diagnostics. A file that is no conf file would have one for every line.
    static let mostDiagnostics = 100

    init(source: SourceText, files: FileInspector, top: Section, role: Role = .both) {
        sources = [source]
        mentions = SourceReferences(file: source.file)
        self.role = role
        self.top = top
        self.files = files
    }

    /// The conf file itself.
    var source: SourceText { sources[0] }

    func source(of place: Place) -> SourceText { sources[place.source] }

    /// Stores the place where a subject is named.
    func mention(_ subject: Subject, at place: Place) { mentions.add(subject, at: place, in: source(of: place)) }

    /// Reads the text of an included file. Reports the reason and returns nil if that fails.
    func include(_ bytes: [UInt8], file: String) -> SourceText? {
        do throws(ConfigurationError) {
            let source = try SourceGuard.text(
                of: bytes, file: file, number: sources.count, settings: top.names)
            sources.append(source)
            return source
        } catch {
            diagnostics += error.diagnostics
            return nil
        }
    }

    /// The source of included files.
    var library: SourceLibrary { files.library }

    /// Returns the line of another place, in the words of a diagnostic at `place`.
    func line(of other: Place, from place: Place) -> String {
        other.source == place.source
            ? "on line \(other.line)" : "on line \(other.line) of \(Printable.quoted(source(of: other).file))"
    }

    func refuse(
        _ place: Place, _ message: String, expected: String? = nil, suggestion: @autoclosure () -> String? = nil
    ) {
        add(.error, place, message, expected, suggestion)
    }

    func warn(_ place: Place, _ message: String, expected: String? = nil) {
        add(.warning, place, message, expected, { nil })
    }

    /// Returns the path relative to the directory of the file that contains it, wherever the gateway was started.
    func resolve(path: String, at place: Place) -> String {
        path.hasPrefix("/") ? path : source(of: place).directory + path
    }

    /// Returns the reason why this file cannot be read, if there is one.
    func objection(toFile path: String) -> String? { files.objection(path) }

    /// Returns the reason why this file cannot hold a secret, if there is one.
    func objection(toSecretIn path: String) -> String? { files.privacyObjection(path) }

    /// Returns whether there is a file.
    func exists(_ path: String) -> Bool { files.existence(path) }

    /// The runtime directory of the gateway with this conf file. Nil if it has none.
    var runtimeDirectory: String? { files.runtimeDirectory(source.file) }

    /// Reads a part of the file. Files named there are not checked if only another process uses them.
    func sparingFiles<Part>(if isSpared: Bool, _ read: () -> Part) -> Part {
        let all = files
        defer { files = all }
        if isSpared { files = .unquestioned }
        return read()
    }

    /// Returns the reason why a file cannot be created here, if there is one.
    func objection(toMaking path: String) -> String? { files.makingObjection(path) }

    /// Returns the warnings.
    ///
    /// - Throws: all diagnostics if one of them is an error.
    func finish() throws(ConfigurationError) -> [Diagnostic] {
        let sorted = diagnostics.enumerated().sorted { left, right in
            guard let first = left.element.place, let second = right.element.place, first != second else {
                return left.offset < right.offset
            }
            return first < second
        }.map(\.element)
        if let error = ConfigurationError(sorted, omitted: omitted) { throw error }
        return sorted
    }

    /// Ends a reading that has no value because something was refused.
    ///
    /// - Throws: all diagnostics.
    func fail() throws(ConfigurationError) -> Never {
        _ = try finish()
        preconditionFailure("a part of the conf file was not read for an unknown reason")
    }

    /// Adds one diagnostic for a file that seems to have no settings. It quotes no line of the file, which may be a
    /// secret.
    private func addForeign(_ severity: Diagnostic.Severity, _ source: SourceText, _ place: Place) {
        let isKnown = diagnostics.contains { $0.place?.source == source.number && $0.severity == severity }
        guard !isKnown else { return }
        diagnostics.append(
            Diagnostic(
                severity: severity, file: source.file, place: place,
                message: "this is not a configuration file, so its lines are not shown",
                expected: "lines that begin with a setting and a colon", suggestion: nil,
                excerpt: nil))
    }

    private func add(
        _ severity: Diagnostic.Severity, _ place: Place, _ message: String, _ expected: String?,
        _ suggestion: () -> String?
    ) {
        // The search for a suggestion takes longer than everything else, so dropped diagnostics get none. The first
        // error is never dropped in favour of warnings: without an error the file would not be refused.
        let isFirstError = severity == .error && !diagnostics.contains { $0.severity == .error }
        guard diagnostics.count < Self.mostDiagnostics || isFirstError else {
            omitted += 1
            return
        }
        let source = source(of: place)
        guard !source.isForeign else { return addForeign(severity, source, place) }
        diagnostics.append(
            Diagnostic(
                severity: severity, file: source.file, place: place, message: message, expected: expected,
                suggestion: suggestion(), excerpt: source.excerpt(at: place)))
    }
}

/// The part of the work that a process does. Only a process that enrols has the key of the GMS CA.
public enum Role: String, CaseIterable, Sendable {
    /// Serves requests. Never opens a file that the section `enrolment` names.
    case gateway
    /// Enrols devices. Has no listeners for requests, and reads none of their files.
    case enrolment
    /// Serves the federation. Has no listeners for requests and does not enrol, and reads no files of these.
    case federation
    /// All of them.
    case both

    public var servesRequests: Bool { self == .gateway || self == .both }
    /// Whether the process enrols devices if the conf file has the section for it.
    public var enrols: Bool { self == .enrolment || self == .both }
    /// Whether the process serves the federation if the conf file has the section for it.
    public var federates: Bool { self == .federation || self == .both }
}
