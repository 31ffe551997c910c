internal import GatewayConfiguration
internal import Lifecycle
internal import RegistrySQLite

/// `attestgate run` with less than `synchronous=FULL` forced upon the registry's file. Commits then return before they are
/// durable, which no crash of a process shows, only a trace of its system calls.
///
/// `normal` shows that tests notice; `off` is what durability's cost is measured against.
@main
enum Undurable {
    static func main() throws {
        let arguments = CommandLine.arguments.dropFirst()
        guard arguments.count == 2, let durability = durability(arguments[1]) else {
            preconditionFailure("usage: attestgate-undurable off|normal CONF")
        }
        let (configuration, _) = try Configuration.load(path: arguments[2])
        var blueprint = try Blueprint(configuration)
        blueprint.durability = durability
        let once = blueprint
        try GatewayProcess.run(
            once, file: "", source: { once }, StartPermissions(), try Inheritance.take(), successor: [])
    }

    private static func durability(_ word: String) -> StoreOptions.Durability? {
        switch word {
        case "off": .off
        case "normal": .normal
        default: nil
        }
    }
}
