/// What `POST /reload` answers: what is served now.
public struct ReloadDocument: Codable, Sendable {
    public let generation: Int
    /// What is doubtful in the configuration that was read, each with its place; nil from a gateway that did not say so yet.
    public let warnings: [String]?

    public init(generation: Int, warnings: [String]) {
        self.generation = generation
        self.warnings = warnings
    }
}
