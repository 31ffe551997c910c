public import ArgumentParser
internal import CCurl
internal import Cryptography
public import DeviceSimulator
internal import Foundation
public import TrustClient
internal import Vocabulary

struct Enrol: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Enrol a phone: attest its hardware key, bind its certificate key, receive the certificate.",
        discussion: """
            Creates the device if there is none. Each step is saved, so the same command continues after an \
            interruption. On an enrolled device it renews the certificate; with --rotate it replaces the \
            certificate's key. Afterwards `request` works with the same directory.

            Exit status: 0 success, 1 refused or something is missing, 2 usage error, 75 repeat later (the service \
            is not available, or an operator must approve the device); without a response, curl's exit status, such \
            as 7 for no connection.
            """)

    @Option(help: ArgumentHelp("The enrolment service: https://HOST[:PORT][/PATH].", valueName: "URL"))
    var enrolment: String

    @Option(help: ArgumentHelp("The service's own URL, if it is different.", valueName: "URL"))
    var provider: String?

    @Option(help: ArgumentHelp("The device.", valueName: "DIR"), completion: .directory)
    var directory: String

    @Option(
        help: ArgumentHelp(
            "The app id, for example ABCDE12345.org.example.app; required if there is no device yet.", valueName: "ID"))
    var appId: String?

    @Option(
        help: ArgumentHelp(
            "The directory of the simulator's authority, created by `ca init` (default: the directory of --ca).",
            valueName: "DIR"),
        completion: .directory)
    var attestationCa: String?

    @Option(
        help: ArgumentHelp(
            "The client data of the attestation, as configured for the app at the service.", valueName: "FORM"))
    var clientData: ClientDataForm = .nonceAndTag

    @Option(
        help: ArgumentHelp("The admission token (JWT), if the service requires one.", valueName: "FILE|-"),
        completion: .file())
    var admissionToken: String?

    @Flag(help: "Replace the certificate's key; the hardware key signs for the new one.")
    var rotate = false

    @Option(help: ArgumentHelp("The operating system whose attestation form is used.", valueName: "SYSTEM"))
    var form: AssertionForm = .iOS14

    @Option(
        help: ArgumentHelp(
            "The system version that the attestation states, in place of the form's.", valueName: "VERSION"))
    var osVersion: String?

    @Option(help: ArgumentHelp("Use the hash of this text in place of the app id's.", valueName: "TEXT"))
    var rpId: String?

    @Option(help: ArgumentHelp("Send one request with this error, and do not retry.", valueName: "WHAT"))
    var alter: EnrolmentAlteration?

    @OptionGroup(title: "Transfer") var transfer: EnrolmentTransferOptions

    func validate() throws {
        guard service != nil else {
            throw ValidationError("--enrolment and --provider must have the form https://HOST[:PORT][/PATH]")
        }
        if let appId, AppID(appId) == nil { throw ValidationError("\(appId) is not of the form PREFIX.bundle.id") }
        if rotate, alter?.endpoint == .initialization {
            throw ValidationError("--rotate sends no initialization that --alter could change")
        }
    }

    private var service: EnrolmentServiceAddress? { EnrolmentServiceAddress(url: enrolment, provider: provider) }

    func run() throws {
        guard let service else { return }
        let library = try LibraryContext()
        let device = try openedOrMade(library)
        let lock = try device.lockEnrolment()
        defer { withExtendedLifetime(lock) {} }
        let record = try device.enrolmentRecord() ?? EnrolmentRecord(service: service)
        guard record.service == service else {
            throw SimulatorError(
                "the device in \(directory) belongs to \(record.service.provider): use another directory for another service"
            )
        }
        // A device whose system was too old has been reset, and its certificate key stays bound to the old hardware
        // key.
        let hasStartedOver = record.step == .begun && FileManager.default.fileExists(atPath: device.certificatePath)
        if rotate, !record.isBound, !hasStartedOver {
            throw SimulatorError("the device is not enrolled: there is no key to replace")
        }
        if rotate { try device.beginRotation(library) }
        if device.isRotating, !rotate { Terminal.put(line: "continuing the rotation") }
        let attestor = SimulatedAttestor(device, authority: authority, form: form, rpID: rpId, systemVersion: osVersion)
        let transfer = transfer
        let resolve = CurlList(transfer.resolve)
        let runner = EnrolmentRunner(
            device, attestor,
            try CurlTransfer(isHTTP2: transfer.http2) { try transfer.apply(to: $0, resolve) }, library,
            alteration: alter)
        try runner.run(record, form: clientData, admissionToken: try admissionToken.map(token))
    }

    private func openedOrMade(_ library: LibraryContext) throws -> DeviceDirectory {
        if let device = try? DeviceDirectory(opening: directory) {
            guard !device.appID.isAndroid else { throw Self.androidRefused }
            guard let appId, device.appID.description != appId else { return device }
            throw SimulatorError("the device in \(directory) belongs to \(device.appID), not to \(appId)")
        }
        guard let appId, let app = AppID(appId) else {
            throw SimulatorError("there is no device in \(directory): create one with --app-id")
        }
        guard !app.isAndroid else { throw Self.androidRefused }
        let device = try DeviceDirectory.create(directory, appID: app, library)
        Terminal.put(line: "created a device of \(app) in \(directory)")
        return device
    }

    private static var androidRefused: SimulatorError {
        SimulatorError("Android devices are not enrolled: register one with attestgate device add")
    }

    private var authority: String {
        if let attestationCa { return attestationCa }
        let directory = transfer.ca.map { ($0 as NSString).deletingLastPathComponent } ?? ""
        return directory.isEmpty ? "." : directory
    }

    private func token(_ path: String) throws -> String {
        let bytes = path == "-" ? Array(FileHandle.standardInput.readDataToEndOfFile()) : try RequestBody.file(path)
        return String(decoding: bytes, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
    }
}

extension ClientDataForm: ExpressibleByArgument {}
extension EnrolmentAlteration: ExpressibleByArgument {}

/// The options of an enrolment's transfers, with curl's names.
struct EnrolmentTransferOptions: ParsableArguments {
    @Option(
        name: [.long, .customLong("cacert")],
        help: ArgumentHelp("PEM file with the authorities of the service's certificate.", valueName: "FILE"),
        completion: .file())
    var ca: String?

    @Option(help: ArgumentHelp("HOST:PORT:ADDRESS: connect there for that host and port.", valueName: "ENTRY"))
    var resolve: [String] = []

    @Flag(
        name: .customLong("http2"), help: "Use HTTP/2, and fail if the server does not support it (default: HTTP/1.1).")
    var http2 = false

    @Option(help: ArgumentHelp("The maximum time of a transfer, in seconds.", valueName: "SECONDS"))
    var maxTime = 30

    @Flag(name: .shortAndLong, help: "Write libcurl's actions to standard error, including tokens.")
    var verbose = false

    func validate() throws {
        guard (1...86_400).contains(maxTime) else { throw ValidationError("--max-time must be 1 to 86400 seconds") }
    }

    /// Sets the common options of all transfers of a run.
    func apply(to settings: CurlSettings, _ resolve: CurlList) throws {
        try settings.setTransfer(authorities: ca, resolve, maxTime: maxTime, isVerbose: verbose)
    }
}
