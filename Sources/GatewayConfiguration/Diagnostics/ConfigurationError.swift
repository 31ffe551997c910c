/// Why a conf file was refused: everything that was found wrong in it, in the order of the file.
public struct ConfigurationError: Error, Equatable {
    /// Never empty; at least one is an error. Warnings are among them, so that all can be corrected together.
    public let diagnostics: [Diagnostic]
    /// How many more were found and not kept.
    public let omitted: Int

    init(_ first: Diagnostic) {
        diagnostics = [first]
        omitted = 0
    }

    /// Nothing when no diagnostic is an error: then nothing was refused.
    init?(_ diagnostics: [Diagnostic], omitted: Int) {
        guard diagnostics.contains(where: { $0.severity == .error }) else { return nil }
        self.diagnostics = diagnostics
        self.omitted = omitted
    }
}

extension ConfigurationError: CustomStringConvertible {
    /// The diagnostics, an empty line between any two. Errors come first: after "nothing was reloaded", a reader takes
    /// the next line for the reason.
    public var description: String {
        let errors = diagnostics.filter { $0.severity == .error }
        let others = diagnostics.filter { $0.severity != .error }
        var parts = (errors + others).map(\.description)
        if omitted > 0 { parts.append("and \(omitted) more") }
        return parts.joined(separator: "\n\n")
    }
}
