internal import GatewayConfiguration
internal import Lifecycle

/// `attestgate run`, with `synchronous=NORMAL` forced upon the registry. Commits then return before they are durable,
/// which no crash of a process shows, only a trace of its system calls.
@main
enum Undurable {
    static func main() throws {
        guard CommandLine.arguments.count == 2 else { preconditionFailure("usage: attestgate-undurable CONF") }
        let (configuration, _) = try Configuration.load(path: CommandLine.arguments[1])
        var blueprint = try Blueprint(configuration)
        blueprint.durability = .normal
        let once = blueprint
        try GatewayProcess.run(once, file: "", source: { once }, mayOverlap: true)
    }
}
