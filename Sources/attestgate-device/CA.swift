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
        abstract: "Create the simulator's root and intermediate authority.",
        discussion: """
            Writes these files into the directory, readable only by their owner, and never replaces one:
              simulator-root.pem, simulator-root.key                  a root for gateways to trust instead of Apple's
              simulator-intermediate.pem, simulator-intermediate.key  issues the attestation certificates of simulated phones
            """)

    @Option(help: ArgumentHelp("The output directory.", valueName: "DIR"), completion: .directory)
    var directory: String

    func run() throws {
        for path in try SimulatorAuthority.create(in: directory) { Terminal.put(line: "wrote \(path)") }
    }
}
