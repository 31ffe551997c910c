internal import Administration
internal import ArgumentParser
internal import Foundation
internal import Registry

struct DeviceCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "device",
        abstract: "Administer registered devices.",
        discussion: """
            While a gateway runs, it is asked through the socket that the conf file names in `administration`; otherwise \
            the registry's file itself is used. A revocation takes effect within a second, on open connections too.

            Exit status: 0 done, 1 refused or impossible, 2 wrong usage.
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
        if case .device(let device) = answer { print(answer, people: DeviceListing.text(of: device)) }
    }

    func perform(_ operation: DeviceOperation, _ administration: DeviceAdministration) throws -> DeviceAnswer {
        do {
            return try administration.perform(operation)
        } catch {
            throw Failure("\(error)")
        }
    }

    func print(_ answer: DeviceAnswer, people: String) {
        let text = json ? String(decoding: JSONText.encode(answer), as: UTF8.self) : people
        FileHandle.standardOutput.write(Data((text + "\n").utf8))
    }
}

extension ConfigurationFile {
    func registryAdministration() throws -> DeviceAdministration {
        let configuration = try read()
        guard let registry = configuration.registry else {
            throw Failure("\(config): there is no section `registry`, so no devices either")
        }
        return DeviceAdministration(
            registryPath: registry.path, socketPath: configuration.administration?.socketPath)
    }
}

struct DeviceShow: ParsableCommand {
    static let configuration = CommandConfiguration(commandName: "show", abstract: "Show a device and its bindings.")

    @OptionGroup var access: DeviceAccess
    @OptionGroup var device: DeviceName

    func run() throws { try access.perform(.show(device.reference.selection(access))) }
}

struct DeviceApprove: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "approve", abstract: "Let a pending device bind its first certificate key.",
        discussion: """
            Asked for where devices are admitted by `approval`. A device that is approved or active already stays as it is; \
            a revoked one is refused.
            """)

    @OptionGroup var access: DeviceAccess
    @OptionGroup var device: DeviceName

    func run() throws { try access.perform(.approve(device.reference.selection(access))) }
}

struct DeviceRestore: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restore", abstract: "Admit a revoked device again, its counter and bindings as they were.")

    @OptionGroup var access: DeviceAccess
    @OptionGroup var device: DeviceName

    func run() throws { try access.perform(.restore(device.reference.selection(access))) }
}

struct DeviceList: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "List devices in the order of their numbers.",
        discussion: "If there are more, the last line says from where on; with --json the member `next` does.")

    @OptionGroup var access: DeviceAccess

    @Option(help: ArgumentHelp("Only devices with greater numbers.", valueName: "N"))
    var after: Int64 = 0

    @Option(help: ArgumentHelp("At most so many devices, up to 10,000.", valueName: "N"))
    var limit = DeviceOperation.usualPage

    @Flag(help: "Only devices that are attested and bound to no certificate key yet.")
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
        access.print(
            .page(DevicePage(devices: devices, next: next)), people: DeviceListing.text(of: devices, next: next))
    }
}
