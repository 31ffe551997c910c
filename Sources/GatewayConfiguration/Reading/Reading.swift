/// One reading of one conf file: what was found on the way, and what the world around the file is.
///
/// Everything that reads a part of the file is handed this, reports what it refuses, and returns nothing. So a file
/// with five mistakes is refused once, with five diagnostics.
final class Reading {
    let source: SourceText
    private let directory: String
    /// What this process does, of all that the file may speak of.
    let role: Role
    private var files: FileInspector
    private var diagnostics: [Diagnostic] = []
    private var omitted = 0

    /// Enough to mend in one go; a file that is no conf file at all would have one for every line.
    private static let mostDiagnostics = 100

    init(source: SourceText, files: FileInspector, role: Role = .both) {
        self.source = source
        self.role = role
        self.files = files
        directory = source.file.lastIndex(of: "/").map { String(source.file[...$0]) } ?? ""
    }

    func refuse(
        _ place: Place, _ message: String, expected: String? = nil, suggestion: @autoclosure () -> String? = nil
    ) {
        add(.error, place, message, expected, suggestion)
    }

    func warn(_ place: Place, _ message: String, expected: String? = nil) {
        add(.warning, place, message, expected, { nil })
    }

    /// Relative paths are meant from where the conf file lies, wherever the gateway was started.
    func resolve(path: String) -> String {
        path.hasPrefix("/") ? path : directory + path
    }

    /// What speaks against reading this file, if anything does.
    func objection(toFile path: String) -> String? { files.objection(path) }

    /// What speaks against keeping a secret in this file, if anything does.
    func objection(toSecretIn path: String) -> String? { files.privacyObjection(path) }

    /// Reads a part of the file; those that it names are not looked at if they are another process' business.
    func sparingFiles<Part>(if isSpared: Bool, _ read: () -> Part) -> Part {
        let all = files
        defer { files = all }
        if isSpared { files = .unquestioned }
        return read()
    }

    /// What speaks against making a file here, if anything does.
    func objection(toMaking path: String) -> String? { files.makingObjection(path) }

    /// The warnings.
    ///
    /// - Throws: everything reported, if any of it was refused.
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

    /// - Throws: everything reported: whoever calls this has no value because something was refused.
    func fail() throws(ConfigurationError) -> Never {
        _ = try finish()
        preconditionFailure("a part of the conf file was not read, and nothing reported why")
    }

    private func add(
        _ severity: Diagnostic.Severity, _ place: Place, _ message: String, _ expected: String?,
        _ suggestion: () -> String?
    ) {
        // Looking for a suggestion takes longer than all the rest, so it is not done for what is dropped.
        // An error is never dropped for warnings alone: without one the file would not be refused.
        let isFirstError = severity == .error && !diagnostics.contains { $0.severity == .error }
        guard diagnostics.count < Self.mostDiagnostics || isFirstError else {
            omitted += 1
            return
        }
        diagnostics.append(
            Diagnostic(
                severity: severity, file: source.file, place: place, message: message, expected: expected,
                suggestion: suggestion(), excerpt: source.excerpt(at: place)))
    }
}
