internal import Administration
internal import ArgumentParser
internal import Foundation
internal import GatewayConfiguration
internal import Lifecycle
internal import Registry
internal import Vocabulary

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

/// The common options of `device` commands, and the execution of operations.
struct DeviceAccess: ParsableArguments {
    @OptionGroup var file: ConfigurationFile

    @Flag(help: "Print one JSON object.")
    var json = false

    func administration() throws -> DeviceAdministration {
        try file.registryAdministration()
    }

    /// Performs an operation on one device and prints its new state.
    func perform(_ operation: DeviceOperation) throws {
        let answer = try administration().perform(operation)
        if case .device(let device) = answer { try print(answer, people: DeviceListing.text(of: device)) }
    }

    func print(_ answer: some Encodable, people: String) throws {
        let text = json ? String(decoding: JSONText.encode(answer), as: UTF8.self) : people
        try FileHandle.standardOutput.write(contentsOf: Data((text + "\n").utf8))
    }
}

private struct DeviceShow: ParsableCommand {
    static let configuration = CommandConfiguration(commandName: "show", abstract: "Show a device and its bindings.")

    @OptionGroup var access: DeviceAccess
    @OptionGroup var device: DeviceName

    func run() throws { try access.perform(.show(device.reference.selection(access))) }
}

private struct DeviceApprove: ParsableCommand {
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

private struct DeviceRestore: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restore", abstract: "Restore a revoked device with its counter and bindings.")

    @OptionGroup var access: DeviceAccess
    @OptionGroup var device: DeviceName

    func run() throws { try access.perform(.restore(device.reference.selection(access))) }
}

private struct DeviceList: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "List devices by number.",
        discussion: """
            Devices that meet all conditions. If there are more, the last line (with --json the member `next`) has the \
            value for --after.

            A device is seen when the registry is asked about it for a request: not by routes with `require: \
            certificate`. Only the date is kept, in UTC.
            """)

    @OptionGroup var access: DeviceAccess

    @Option(help: ArgumentHelp("Only devices with higher numbers.", valueName: "N"))
    var after: Int64 = 0

    @Option(help: ArgumentHelp("The maximum number of devices, up to 10,000.", valueName: "N"))
    var limit = DeviceOperation.usualPage

    @Flag(help: "Only attested devices without a certificate key: --status pending.")
    var pending = false

    @Option(help: ArgumentHelp("Only devices of this app.", valueName: "ID"))
    var app: String?

    @Option(help: ArgumentHelp("Only devices of this platform: \(Platform.names).", valueName: "PLATFORM"))
    var platform: String?

    @Option(help: ArgumentHelp("Only devices in this state: pending, active or revoked.", valueName: "STATE"))
    var status: String?

    @Option(
        help: ArgumentHelp("Only devices of the person with this pseudonym, as in `device show`.", valueName: "BASE64"))
    var subject: String?

    @Option(help: ArgumentHelp("Only devices last seen before this date, or never.", valueName: "DATE"))
    var seenBefore: String?

    @Option(help: ArgumentHelp("Only devices seen on this date or later.", valueName: "DATE"))
    var seenSince: String?

    func validate() throws {
        guard after >= 0 else { throw ValidationError("--after is a device number, or 0") }
        guard (1...10_000).contains(limit) else { throw ValidationError("--limit is between 1 and 10000") }
        guard !pending || status == nil else { throw ValidationError("--pending and --status exclude each other") }
        _ = try search()
    }

    private func search() throws -> DeviceSearch {
        var search = DeviceSearch()
        search.app = try Self.value(app, "--app", "an app id", AppID.init)
        search.platform = try Self.value(
            platform, "--platform", Platform.names, among: Platform.allCases.map(\.rawValue), Platform.init)
        search.state = try Self.value(
            status, "--status", "pending, active or revoked", among: ["pending", "active", "revoked"], DeviceState.init)
        search.subject = try Self.value(
            subject, "--subject", "a pseudonym in base64, as in `device show`", DeviceSearch.subject)
        search.seenBefore = try Self.value(seenBefore, "--seen-before", "a date such as 2026-11-27", DeviceSearch.day)
        search.seenSince = try Self.value(seenSince, "--seen-since", "a date such as 2026-11-27", DeviceSearch.day)
        return search
    }

    /// Parses the value of an option.
    ///
    /// - Parameter names: The valid values, for a suggestion.
    private static func value<Value>(
        _ text: String?, _ option: String, _ expected: String, among names: [String] = [], _ parse: (String) -> Value?
    ) throws -> Value? {
        guard let text else { return nil }
        if let value = parse(text) { return value }
        let suggestion = Spelling.nearest(to: text, among: names).map { ". Did you mean '\($0)'?" } ?? ""
        throw ValidationError("\(option) is \(expected)\(suggestion)")
    }

    func run() throws {
        var search = try search()
        if pending, search != DeviceSearch() { search.state = .pending }
        let administration = try access.administration()
        var devices: [DeviceDocument] = []
        var next: Int64? = after
        while let after = next, devices.count < limit {
            let size = min(limit - devices.count, DeviceOperation.largestPage)
            let operation: DeviceOperation =
                if pending, search == DeviceSearch() {
                    .listPending(after: DeviceID(after), limit: size)
                } else if search == DeviceSearch() {
                    .list(after: DeviceID(after), limit: size)
                } else {
                    .search(search, after: DeviceID(after), limit: size)
                }
            let answer = try administration.perform(operation)
            guard case .page(let page) = answer else { break }
            devices += page.devices
            next = page.next
        }
        try access.print(
            DevicePage(devices: devices, next: next), people: DeviceListing.text(of: devices, next: next))
    }
}

/// Devices in text for people.
enum DeviceListing {
    private static let titles = [
        "DEVICE", "STATE", "APP", "PLATFORM", "ENVIRONMENT", "COUNTER", "REGISTERED", "LAST SEEN", "KEY ID",
    ]

    /// Returns a table of devices.
    ///
    /// - Parameter next: The device after which more follow. Nil if these are the last.
    static func text(of devices: [DeviceDocument], next: Int64?) -> String {
        let rows = devices.map { device in
            [
                String(device.device), device.state, device.appID, device.platform, device.environment,
                String(device.counter), device.registeredAt, device.lastSeen ?? "never", device.keyID,
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
            ["last seen", device.lastSeen ?? "never"],
            ["counter", String(device.counter)],
        ]
        if let shown = device.shownExtensions, !shown.isEmpty { rows.append(["shows", shown.joined(separator: ", ")]) }
        if let version = device.systemVersion { rows.append(["system version", version]) }
        if let phone = device.phone { rows += Self.rows(of: phone) }
        if let posture = device.posture { rows += Self.rows(of: posture, isPhoneShown: device.phone != nil) }
        if let signals = device.signals {
            rows.append(["signals", "claimed by the app, not proven, \(signals.claimedAt)"])
            rows += signals.claims.sorted { $0.key < $1.key }.map { ["claimed \($0.key)", $0.value.text] }
        }
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
        for token in device.federationTokens ?? [] {
            let end = token.revokedAt.map { "revoked \($0)" } ?? "expires \(token.expiresAt)"
            let holder = token.party.map { " of \($0)" } ?? ""
            rows.append(["\(token.kind) token", "\(token.id)\(holder) for \(token.audience), \(token.scope), \(end)"])
        }
        return Columns.aligned(rows).joined(separator: "\n")
    }
}

extension DeviceListing {
    /// Returns the facts that other rows do not have.
    private static func rows(of posture: PostureDocument, isPhoneShown: Bool) -> [[String]] {
        let names: [PostureFactName] =
            (isPhoneShown ? [] : [.appVersion, .distribution, .keyProtection])
            + [.certificateKeyAttested, .attestedAt, .admission]
        return names.compactMap { name in
            posture.text(of: name).map { [name.rawValue.replacing("_", with: " "), $0] }
        }
    }

    private static func rows(of phone: PhoneDocument) -> [[String]] {
        let patches = [
            phone.patchLevel.map { "system \($0)" }, phone.vendorPatchLevel.map { "vendor \($0)" },
            phone.bootPatchLevel.map { "boot \($0)" },
        ].compactMap(\.self)
        return [
            ["tag", phone.tag],
            ["key protection", phone.securityLevel],
            ["boot", "\(phone.bootState), bootloader \(phone.isBootloaderLocked ? "locked" : "unlocked")"],
            ["boot key", phone.bootKey],
            ["patch levels", patches.isEmpty ? "not stated" : patches.joined(separator: ", ")],
            ["app version", "\(phone.appVersion)"],
            ["play integrity", phone.integrity.map { $0.joined(separator: ", ") } ?? "never asked"],
            ["attested by", phone.serials.joined(separator: ", ") + (phone.isKeyListed ? " (REVOKED)" : "")],
        ]
    }
}

/// Tables in text for people.
enum Columns {
    /// Aligns columns to their widest cell, except the last. Widths are in scalars.
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
