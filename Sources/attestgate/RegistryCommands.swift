internal import Administration
internal import ArgumentParser
internal import Encoding
internal import Foundation
internal import Registry

struct RegistryAdministration: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "registry", abstract: "Administer the registry as a whole.",
        subcommands: [RegistryExportCommand.self, RegistryImportCommand.self, RenewEpoch.self])
}

private struct RenewEpoch: ParsableCommand {
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
        try file.registryAdministration().renewEpoch()
        print("the registry has a new epoch: all earlier challenges are refused")
    }
}

private struct RegistryExportCommand: ParsableCommand {
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
        defer { console.clear() }
        let counts = try administration.export { bytes in
            if let target { return try target.write(bytes) }
            guard OutputFile.write(bytes, to: STDOUT_FILENO) else {
                throw Failure("cannot write to standard output: \(String(cString: strerror(errno)))")
            }
        } progress: {
            console.show("\($0.devices) devices")
        }
        try target?.keep()
        console.clear()
        guard target != nil else { return }
        print("wrote \(out): \(counts.text)")
    }
}

extension ExportCounts {
    /// The text for people.
    var text: String {
        func some(_ count: Int64, _ one: String, _ many: String) -> String { "\(count) \(count == 1 ? one : many)" }
        let federation = [
            services > 0 ? some(services, "service", "services") : nil,
            federationTokens > 0 ? some(federationTokens, "federation token", "federation tokens") : nil,
        ].compactMap(\.self)
        let texts = [
            some(devices, "device", "devices"), some(certificates, "certificate", "certificates"),
            some(usedTokens, "used token", "used tokens"),
            some(revokedSubjects, "revoked subject", "revoked subjects"),
            some(barredKeys, "barred key", "barred keys"),
        ]
        return (texts + federation).joined(separator: ", ")
    }
}

private struct RegistryImportCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import",
        abstract: "Restore the registry from a backup, or move it to another store.",
        discussion: """
            Reads a file of `registry export` into a registry without devices, and creates the registry if there is \
            none. Stop all gateways of that registry first. The import is complete or changes nothing: a truncated \
            or altered file is refused. Afterwards the registry has a new epoch: apps receive a new challenge with \
            their next request. Admission tokens are refused for an hour, because they may have been used since the \
            backup. Revocations since the backup are repeated from the revocation journal, `registry.revocations`. \
            Without a journal the import is refused, unless you accept that.

            Exit status: 0 imported, 1 failure and nothing changed, 2 usage error.
            """)

    @OptionGroup var file: ConfigurationFile

    @Argument(help: ArgumentHelp("The file; - is standard input.", valueName: "FILE"), completion: .file())
    var source: String

    @Flag(
        help: """
            Import without a revocation journal: devices revoked after the backup are not revoked until you revoke \
            them again.
            """)
    var acceptLostRevocations = false

    func run() throws {
        let journal = try file.revocationsPath()
        let hasJournal = FileManager.default.fileExists(atPath: journal)
        guard hasJournal || acceptLostRevocations else {
            throw Failure(
                """
                there is no revocation journal at \(journal), so devices revoked after the backup would be accepted: \
                put the journal there, or name its path in `registry.revocations`. If it is lost, repeat the import \
                with --accept-lost-revocations; nothing was imported
                """)
        }
        try file.warnOfForeignDirectory()
        let administration = try file.registryAdministration(.restoring(hasJournal: hasJournal))
        let input = try InputFile(source)
        let console = ProgressLine()
        defer { console.clear() }
        let report: DeviceAdministration.ImportReport
        do {
            report = try administration.importExport(next: { try input.next().map(Array.init) }) {
                console.show("\($0) lines read")
            } complete: { head in
                guard !hasJournal else { return }
                console.clear()
                // This is printed before the change, so that it is printed even if the process ends then.
                Failure.print(
                    "there is no revocation journal at \(journal): what was revoked after \(InternetTime.text(of: head.time)) is NOT "
                        + "revoked: repeat it")
            }
        } catch let error as RegistryImportError {
            console.clear()
            throw Self.failure(error, input.name)
        } catch DeviceAdministrationError.locked(let registry, _) {
            throw Failure("\(registry) is in use by another process: stop the gateway first")
        }
        console.clear()
        print(
            "imported the export of \(InternetTime.text(of: report.head.time)): \(report.counts.text); the registry has a new epoch"
        )
    }

    private static func failure(_ error: RegistryImportError, _ name: String) -> Failure {
        switch error {
        case .faults(let faults):
            for fault in faults { Failure.print("\(name):\(fault.line): \(fault.reason)") }
            return Failure("nothing was imported")
        case .notEmpty:
            return Failure(
                """
                the registry already has devices: nothing was imported. To replace it, first move the file of \
                registry.path and its -wal away; in a database: DROP SCHEMA attestgate CASCADE
                """)
        case .inUse(let connections):
            return Failure(
                "the database is in use by attestgate, with \(connections) connection\(connections == 1 ? "" : "s"): "
                    + "stop all gateways first")
        }
    }
}
