internal import Administration
internal import ArgumentParser
internal import Foundation
internal import GatewayConfiguration
internal import Lifecycle
internal import Registry
internal import Synchronization

struct DeviceCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "device",
        abstract: "Administer registered devices.",
        discussion: """
            Contacts a running gateway through the socket in the section `administration` of the conf file; \
            otherwise opens the registry itself. A revocation takes effect within a second, also on open \
            connections.

            Exit status: 0 success, 1 failure, 2 usage error.
            """,
        subcommands: [
            DeviceAdd.self, DeviceImportCommand.self, DeviceList.self, DeviceShow.self,
            DeviceApprove.self, DeviceRevoke.self, DeviceRestore.self,
        ])
}

/// What every `device` command takes, and how it is carried out.
struct DeviceAccess: ParsableArguments {
    @OptionGroup var file: ConfigurationFile

    @Flag(help: "Print one JSON object.")
    var json = false

    func administration() throws -> DeviceAdministration {
        try file.registryAdministration()
    }

    /// Carries out an operation on one device, and prints the device as it is then.
    func perform(_ operation: DeviceOperation) throws {
        let answer = try perform(operation, administration())
        if case .device(let device) = answer { try print(answer, people: DeviceListing.text(of: device)) }
    }

    func perform(_ operation: DeviceOperation, _ administration: DeviceAdministration) throws -> DeviceAnswer {
        do {
            return try administration.perform(operation)
        } catch {
            throw Failure("\(error)")
        }
    }

    func print(_ answer: DeviceAnswer, people: String) throws {
        let text = json ? String(decoding: JSONText.encode(answer), as: UTF8.self) : people
        try FileHandle.standardOutput.write(contentsOf: Data((text + "\n").utf8))
    }
}

extension ConfigurationFile {
    /// - Parameter kind: what the command does to the registry as a whole.
    func registryAdministration(_ kind: RegistryUse = .asItIs) throws -> DeviceAdministration {
        let configuration = try read()
        let registry = try registry(of: configuration)
        var database: PostgreSQLSettings?
        if case .postgresql(let settings) = registry.store { database = PostgreSQLSettings(settings) }
        return DeviceAdministration(
            registryPath: registry.path,
            witness: WitnessSettings(
                path: registry.revocationsPath, acceptsLoss: kind == .restoring(hasJournal: false),
                acceptsLostStore: kind != .asItIs
            ) { [notices = UniqueLines()] in
                switch (kind, $0) {
                // An import fills what it makes, and says itself that it has no journal to repeat.
                case (.restoring, .storeMade), (.restoring(hasJournal: false), .wentBack),
                    (.restoring(hasJournal: false), .lossAccepted):
                    break
                default: notices.tell("registry: \($0)")
                }
            },
            socketPath: configuration.administration?.socketPath, database: database)
    }

    /// Before devices are added: a registry that this makes gets its secret with it, as if a gateway had made both.
    func prepareSecret() throws {
        let registry = try registry(of: read())
        guard let path = registry.path, access(path, F_OK) != 0, access(registry.revocationsPath, F_OK) != 0 else {
            return
        }
        do { try RegistrySecrets.make(path: registry.secretPath) } catch { throw Failure("\(error)") }
    }

    /// Where the revocation journal lies.
    func revocationsPath() throws -> String { try registry(of: read()).revocationsPath }

    private func registry(of configuration: Configuration) throws -> RegistryConfiguration {
        guard let registry = configuration.registry else {
            throw Failure("\(config): there is no section `registry`, so there are no devices")
        }
        return registry
    }
}

/// What a command does to the registry as a whole.
enum RegistryUse: Equatable {
    case asItIs
    /// It may make the registry, and fills it from an export.
    case restoring(hasJournal: Bool)
}

struct DeviceShow: ParsableCommand {
    static let configuration = CommandConfiguration(commandName: "show", abstract: "Show a device and its bindings.")

    @OptionGroup var access: DeviceAccess
    @OptionGroup var device: DeviceName

    func run() throws { try access.perform(.show(device.reference.selection(access))) }
}

struct DeviceApprove: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "approve", abstract: "Allow a pending device to bind its first certificate key.",
        discussion: """
            Required with `admission: approval`. An approved or active device is unchanged; a revoked device is \
            refused.
            """)

    @OptionGroup var access: DeviceAccess
    @OptionGroup var device: DeviceName

    func run() throws { try access.perform(.approve(device.reference.selection(access))) }
}

struct DeviceRestore: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restore", abstract: "Restore a revoked device with its counter and bindings.")

    @OptionGroup var access: DeviceAccess
    @OptionGroup var device: DeviceName

    func run() throws { try access.perform(.restore(device.reference.selection(access))) }
}

struct DeviceList: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "List devices by number.",
        discussion:
            "If there are more devices, the last line (with --json the member `next`) has the value for --after.")

    @OptionGroup var access: DeviceAccess

    @Option(help: ArgumentHelp("Only devices with higher numbers.", valueName: "N"))
    var after: Int64 = 0

    @Option(help: ArgumentHelp("The maximum number of devices, up to 10,000.", valueName: "N"))
    var limit = DeviceOperation.usualPage

    @Flag(help: "Only attested devices without a certificate key.")
    var pending = false

    func validate() throws {
        guard after >= 0 else { throw ValidationError("--after is a device number, or 0") }
        guard (1...10_000).contains(limit) else { throw ValidationError("--limit is between 1 and 10000") }
    }

    func run() throws {
        let administration = try access.administration()
        var devices: [DeviceDocument] = []
        var next: Int64? = after
        while let after = next, devices.count < limit {
            let size = min(limit - devices.count, DeviceOperation.largestPage)
            let operation: DeviceOperation =
                pending
                ? .listPending(after: DeviceID(after), limit: size) : .list(after: DeviceID(after), limit: size)
            let answer = try access.perform(operation, administration)
            guard case .page(let page) = answer else { break }
            devices += page.devices
            next = page.next
        }
        try access.print(
            .page(DevicePage(devices: devices, next: next)), people: DeviceListing.text(of: devices, next: next))
    }
}

/// Lines for standard error, each once: an import opens its registry twice, and finds the same both times.
private final class UniqueLines: Sendable {
    private let printed = Mutex<Set<String>>([])

    func tell(_ line: String) {
        guard printed.withLock({ $0.insert(line).inserted }) else { return }
        Failure.print(line)
    }
}

/// Devices as text for people.
enum DeviceListing {
    private static let titles = [
        "DEVICE", "STATE", "APP", "PLATFORM", "ENVIRONMENT", "COUNTER", "REGISTERED", "KEY ID",
    ]

    /// - Parameter next: the device after which more follow; nil if these were the last.
    static func text(of devices: [DeviceDocument], next: Int64?) -> String {
        let rows = devices.map { device in
            [
                String(device.device), device.state, device.appID, device.platform, device.environment,
                String(device.counter), device.registeredAt, device.keyID,
            ]
        }
        let more = next.map { ["", "there are more: --after \($0)"] } ?? []
        return (Columns.aligned([titles] + rows) + more).joined(separator: "\n")
    }

    static func text(of device: DeviceDocument) -> String {
        var rows = [
            ["device", String(device.device)],
            ["state", device.state + (device.revokedAt.map { " since \($0)" } ?? "")],
        ]
        if let approved = device.approvedAt { rows.append(["approved", approved]) }
        rows += [
            ["key id", device.keyID],
            ["app", device.appID],
            ["platform", device.platform],
            ["environment", device.environment],
            ["registered", device.registeredAt],
            ["counter", String(device.counter)],
        ]
        if let shown = device.shownExtensions, !shown.isEmpty { rows.append(["shows", shown.joined(separator: ", ")]) }
        if let version = device.systemVersion { rows.append(["system version", version]) }
        if let subject = device.subject { rows.append(["subject", subject]) }
        if let receipt = device.receipt {
            rows.append(["risk metric", receipt.riskMetric.map { "\($0)" } ?? "unknown"])
            let made = receipt.createdAt.map { "made \($0)" }
            let outcome = receipt.outcome.map { outcome in "\(outcome)\(receipt.askedAt.map { " \($0)" } ?? "")" }
            let next = receipt.nextAt.map { "next \($0)" } ?? "no longer requested"
            rows.append(["receipt", [made, outcome, next].compactMap(\.self).joined(separator: ", ")])
        }
        for binding in device.bindings ?? [] {
            let ended = binding.endedAt.map { ", ended \($0)" } ?? binding.endsAt.map { ", ends \($0)" } ?? ""
            rows.append(["certificate key", "\(binding.keyID) since \(binding.createdAt)\(ended)"])
        }
        return Columns.aligned(rows).joined(separator: "\n")
    }
}

/// Tables as text for people.
enum Columns {
    /// Columns as wide as their widest cell; the last one as it is. Widths are in scalars.
    static func aligned(_ rows: [[String]]) -> [String] {
        let columns = rows.map(\.count).max() ?? 0
        let widths = (0..<columns).map { column in rows.map { $0[column].unicodeScalars.count }.max() ?? 0 }
        return rows.map { row in
            row.enumerated().map { column, cell in
                column == columns - 1 ? cell : pad(cell, to: widths[column])
            }.joined(separator: "  ")
        }
    }

    private static func pad(_ cell: String, to width: Int) -> String {
        cell + String(repeating: " ", count: width - cell.unicodeScalars.count)
    }
}
