internal import Administration
internal import ArgumentParser
internal import Foundation
internal import Registry

struct RegistryExportCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "export",
        abstract: "Write a backup of the registry, while a gateway runs or not.",
        discussion: """
            The file has one JSON object per line: each device with its bindings, counter and receipt, and all other \
            durable data of the registry. It contains no secrets, but key ids, which are personal data. An existing \
            file is never replaced. The file has mode 0600 and gets its name only when it is complete and on disk.

            Contacts a running gateway through the socket in the section `administration` of the conf file; \
            otherwise reads the registry itself, in SQLite or PostgreSQL. Exit status: 0 written, 1 failure and no \
            file created, 2 usage error.
            """)

    @OptionGroup var file: ConfigurationFile

    @Argument(help: ArgumentHelp("The output file; - is standard output.", valueName: "FILE"), completion: .file())
    var out = "-"

    func run() throws {
        let administration = try file.registryAdministration()
        let target = out == "-" ? nil : try NewFile(at: out)
        let console = ProgressLine()
        let counts: ExportCounts
        do {
            counts = try administration.export { bytes in
                if let target { return try target.write(bytes) }
                guard OutputFile.write(bytes, to: STDOUT_FILENO) else {
                    throw Failure("cannot write to standard output: \(String(cString: strerror(errno)))")
                }
            } progress: {
                console.show("\($0.devices) devices")
            }
            try target?.keep()
        } catch let error as DeviceAdministrationError {
            console.clear()
            throw Failure("\(error)")
        }
        console.clear()
        guard target != nil else { return }
        print("wrote \(out): \(counts.text)")
    }
}

extension ExportCounts {
    /// For people.
    var text: String {
        func some(_ count: Int64, _ one: String, _ many: String) -> String { "\(count) \(count == 1 ? one : many)" }
        return [
            some(devices, "device", "devices"), some(certificates, "certificate", "certificates"),
            some(usedTokens, "used token", "used tokens"),
            some(revokedSubjects, "revoked subject", "revoked subjects"),
            some(barredKeys, "barred key", "barred keys"),
        ].joined(separator: ", ")
    }
}
