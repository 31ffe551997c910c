internal import ArgumentParser
internal import DeviceSimulator

struct CA: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ca",
        abstract: "The simulator's own App Attest style authority.",
        subcommands: [CAInit.self])
}

struct CAInit: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "init",
        abstract: "Make the simulator's root and intermediate authority.",
        discussion: """
            Writes into the directory, readable by its owner alone, and never over an existing file:
              simulator-root.pem, simulator-root.key                  what a gateway may trust instead of Apple's root
              simulator-intermediate.pem, simulator-intermediate.key  issues what simulated phones attest with
            """)

    @Option(help: ArgumentHelp("Where to write.", valueName: "DIR"), completion: .directory)
    var directory: String

    func run() throws {
        for path in try SimulatorAuthority.create(in: directory) { Terminal.put(line: "wrote \(path)") }
    }
}
