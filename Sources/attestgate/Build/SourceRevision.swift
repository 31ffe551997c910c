/// The commit and compiler of this build.
///
/// `git archive` writes the commit into its copy of this file (gitattributes(5), export-subst), and `scripts/package`
/// writes the compiler's version. A build from a working tree has neither.
enum SourceRevision {
    /// The commit's id and time (RFC 3339).
    private static let commit = ("$Format:%H$", "$Format:%cI$")
    /// The output of `swiftc --version`.
    private static let compiler = "$Compiler$"

    /// The commit. Nil for a build from a working tree.
    static var text: String? { isWritten(commit.0) ? "\(commit.0), \(commit.1)" : nil }

    /// The compiler. The runtime library has the same version and is part of a packaged program.
    static var swift: String? { isWritten(compiler) ? compiler : nil }

    private static func isWritten(_ text: String) -> Bool { !text.hasPrefix("$") }
}
