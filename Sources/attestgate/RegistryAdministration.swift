internal import Administration
internal import ArgumentParser

struct RegistryAdministration: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "registry", abstract: "Administer the registry as a whole.",
        subcommands: [RegistryExportCommand.self, RegistryImportCommand.self, RenewEpoch.self])
}

struct RenewEpoch: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "renew-epoch",
        abstract: "Refuse every challenge and nonce handed out before, and every proof made with one.",
        discussion: """
            For when counters may have gone back unnoticed: a registry that was put back from a copy is noticed by itself, \
            by what its revocation journal and commit mark say. Devices that are in use get a new challenge with the refusal \
            and go on.

            While a gateway runs, it is asked through the socket that the conf file names in `administration`; otherwise \
            the registry's file itself is used. Exit status: 0 done, 1 impossible, 2 wrong usage.
            """)

    @OptionGroup var file: ConfigurationFile

    func run() throws {
        do {
            try file.registryAdministration().renewEpoch()
        } catch let error as DeviceAdministrationError {
            throw Failure("\(error)")
        }
        print("the registry has a new epoch: every challenge handed out before is refused")
    }
}
