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
        abstract: "Invalidate all challenges and nonces issued so far, and all proofs made with them.",
        discussion: """
            Use it if counters may have been rolled back without detection. The gateway itself detects a registry \
            restored from a copy by the revocation journal and the commit mark. Active devices receive a new \
            challenge with the denial and continue.

            Contacts a running gateway through the socket in the section `administration` of the conf file; \
            otherwise opens the registry itself. Exit status: 0 success, 1 failure, 2 usage error.
            """)

    @OptionGroup var file: ConfigurationFile

    func run() throws {
        do {
            try file.registryAdministration().renewEpoch()
        } catch let error as DeviceAdministrationError {
            throw Failure("\(error)")
        }
        print("the registry has a new epoch: all earlier challenges are refused")
    }
}
