internal import Administration
internal import ArgumentParser
internal import Foundation
internal import Registry

struct RegistryImportCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import",
        abstract: "Restore the registry from a backup, or move it to another store.",
        discussion: """
            Takes what `registry export` has written into a registry that has no devices; makes it if there is none. All gateways \
            of that registry must be stopped. Everything is taken over, or nothing: the file is read to its end before any of it \
            counts, and refused if it was cut off or changed. The registry has a fresh epoch then: apps get a new challenge with \
            their next request, and go on. Admission tokens are refused for an hour, since they may have been used since the \
            backup. What was revoked since the backup is repeated from the revocation journal, `registry.revocations`: without \
            one nothing is taken over, unless that is accepted.

            Exit status: 0 taken over, 1 refused and nothing changed, 2 wrong usage.
            """)

    @OptionGroup var file: ConfigurationFile

    @Argument(help: ArgumentHelp("The file; - is standard input.", valueName: "FILE"), completion: .file())
    var source: String

    @Flag(
        help: """
            Go on though there is no revocation journal: what was revoked after the backup is not revoked, and to be repeated by \
            hand.
            """)
    var acceptLostRevocations = false

    private var name: String { source == "-" ? "standard input" : source }

    func run() throws {
        let journal = try file.revocationsPath()
        let hasJournal = FileManager.default.fileExists(atPath: journal)
        guard hasJournal || acceptLostRevocations else {
            throw Failure(
                """
                there is no revocation journal at \(journal), so that whoever was revoked after the backup would be let in: \
                put the journal there, or name its place in `registry.revocations`. If there is none, repeat the import with \
                --accept-lost-revocations; nothing was taken over
                """)
        }
        let administration = try file.registryAdministration(.restoring(hasJournal: hasJournal))
        guard let input = source == "-" ? FileHandle.standardInput : FileHandle(forReadingAtPath: source) else {
            throw Failure("\(name) cannot be read")
        }
        let console = ProgressLine()
        defer { console.clear() }
        let report: DeviceAdministration.ImportReport
        do {
            report = try administration.importExport(next: { try next(of: input) }) {
                console.show("\($0) lines read")
            } complete: { head in
                guard !hasJournal else { return }
                console.clear()
                // Before it is so: whatever ends this process then, it has been said.
                Failure.print(
                    "there is no revocation journal at \(journal): what was revoked after \(Self.text(head.time)) is NOT "
                        + "revoked: repeat it")
            }
        } catch let error as RegistryImportError {
            console.clear()
            throw failure(error)
        } catch let error as DeviceAdministrationError {
            console.clear()
            if case .locked(let registry, _) = error {
                throw Failure("\(registry) is in use by another process: stop the gateway first")
            }
            throw Failure("\(error)")
        }
        console.clear()
        print(
            "took over the export of \(Self.text(report.head.time)): \(report.counts.text); the registry has a fresh epoch"
        )
    }

    /// - Parameter time: seconds since 1970.
    private static func text(_ time: Int64) -> String {
        Date(timeIntervalSince1970: TimeInterval(time)).formatted(.iso8601)
    }

    private func failure(_ error: RegistryImportError) -> Failure {
        switch error {
        case .faults(let faults):
            for fault in faults { Failure.print("\(name):\(fault.line): \(fault.reason)") }
            return Failure("nothing was taken over")
        case .notEmpty:
            return Failure(
                """
                the registry has devices already: nothing was taken over. To replace it, first move the file of registry.path \
                and its -wal away; in a database: DROP SCHEMA attestgate CASCADE
                """)
        case .inUse(let connections):
            return Failure(
                "the database is in use by attestgate, with \(connections) connection\(connections == 1 ? "" : "s"): "
                    + "stop all gateways first")
        }
    }

    /// - Returns: nil at the end.
    private func next(of input: FileHandle) throws -> [UInt8]? {
        do {
            return try input.read(upToCount: 64 * 1024).flatMap { $0.isEmpty ? nil : Array($0) }
        } catch {
            throw Failure("\(name) cannot be read to its end")
        }
    }
}
