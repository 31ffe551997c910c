/// Which commit the program was built from, and with what. `git archive` writes the commit into its copy of this file
/// (gitattributes(5), export-subst), `scripts/package` the compiler's version; a working tree may hold anything, and names none.
enum SourceRevision {
    /// The commit's name, and when it was made (RFC 3339).
    private static let commit = ("$Format:%H$", "$Format:%cI$")
    /// What `swiftc --version` said.
    private static let compiler = "$Compiler$"

    /// nil where it was built from a working tree.
    static var text: String? { isWritten(commit.0) ? "\(commit.0), \(commit.1)" : nil }

    /// The runtime library is of the same version, and part of the program where that was packaged.
    static var swift: String? { isWritten(compiler) ? compiler : nil }

    private static func isWritten(_ text: String) -> Bool { !text.hasPrefix("$") }
}
