public import ArgumentParser
internal import CCurl
internal import Cryptography
public import DeviceSimulator
internal import Foundation
public import TrustClient
internal import Vocabulary

struct Enrol: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Enrol a phone: attest its hardware key, bind its certificate key, get the certificate.",
        discussion: """
            Makes the device if there is none. Each step is kept, so after an interruption the same command goes on; on a \
            device that is enrolled it renews the certificate, and with --rotate it replaces the certificate's key. Then \
            `request` works from the same directory.

            Exit status: 0 done, 1 refused, or something is missing, 2 usage, 75 to be repeated later: the service cannot \
            answer, or an operator has to approve the device; without a response curl's own, as in 7 no connection.
            """)

    @Option(help: ArgumentHelp("The enrolment service: https://HOST[:PORT][/PATH].", valueName: "URL"))
    var enrolment: String

    @Option(help: ArgumentHelp("The URL the service knows itself by, if it is another.", valueName: "URL"))
    var provider: String?

    @Option(help: ArgumentHelp("The device.", valueName: "DIR"), completion: .directory)
    var directory: String

    @Option(
        help: ArgumentHelp(
            "The app, as in ABCDE12345.org.example.app; needed where there is no device yet.", valueName: "ID"))
    var appId: String?

    @Option(
        help: ArgumentHelp(
            "Where the simulator's authority lies, made by `ca init` (the directory of --ca).", valueName: "DIR"),
        completion: .directory)
    var attestationCa: String?

    @Option(
        help: ArgumentHelp(
            "What the hardware key is attested with, as the service has it configured for the app.", valueName: "FORM"))
    var clientData: ClientDataForm = .nonceAndTag

    @Option(
        help: ArgumentHelp("The JWT that lets the device in, where the service demands one.", valueName: "FILE|-"),
        completion: .file())
    var admissionToken: String?

    @Flag(help: "Replace the key of the certificate; the hardware key vouches for the new one.")
    var rotate = false

    @Option(help: ArgumentHelp("The system whose statements look so.", valueName: "SYSTEM"))
    var form: AssertionForm = .iOS14

    @Option(help: ArgumentHelp("Put the hash of this text where the app id's belongs.", valueName: "TEXT"))
    var rpId: String?

    @Option(help: ArgumentHelp("Send one request with this wrong, whatever the answer.", valueName: "WHAT"))
    var alter: EnrolmentAlteration?

    @OptionGroup(title: "Transfer") var transfer: EnrolmentTransferOptions

    func validate() throws {
        guard service != nil else {
            throw ValidationError("--enrolment and --provider are of the form https://HOST[:PORT][/PATH]")
        }
        if let appId, AppID(appId) == nil { throw ValidationError("\(appId) is not of the form PREFIX.bundle.id") }
        if rotate, alter?.endpoint == .initialization {
            throw ValidationError("--rotate initializes nothing that could be altered")
        }
    }

    private var service: EnrolmentService? { EnrolmentService(url: enrolment, provider: provider) }

    func run() throws {
        guard let service else { return }
        let library = try LibraryContext()
        let device = try openedOrMade(library)
        let lock = try device.lockEnrolment()
        defer { withExtendedLifetime(lock) {} }
        let record = try device.enrolmentRecord() ?? EnrolmentRecord(service: service)
        guard record.service == service else {
            throw SimulatorError(
                "the device in \(directory) belongs to \(record.service.provider): another service takes another device"
            )
        }
        if rotate, !record.isBound { throw SimulatorError("the device is not enrolled: there is no key to replace") }
        if rotate { try device.beginRotation(library) }
        if device.isRotating, !rotate { Terminal.put(line: "going on with the rotation that was begun") }
        let attestor = SimulatedAttestor(device, authority: authority, form: form, rpID: rpId)
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
            guard let appId, device.appID.description != appId else { return device }
            throw SimulatorError("the device in \(directory) is one of \(device.appID), not of \(appId)")
        }
        guard let appId, let app = AppID(appId) else {
            throw SimulatorError("there is no device in \(directory): --app-id makes one of that app")
        }
        let device = try DeviceDirectory.create(directory, appID: app, library)
        Terminal.put(line: "made a device of \(app) in \(directory)")
        return device
    }

    private var authority: String {
        if let attestationCa { return attestationCa }
        let directory = transfer.ca.map { ($0 as NSString).deletingLastPathComponent } ?? ""
        return directory.isEmpty ? "." : directory
    }

    private func token(_ path: String) throws -> String {
        let bytes = path == "-" ? Array(FileHandle.standardInput.readDataToEndOfFile()) : try RequestContent.file(path)
        return String(decoding: bytes, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
    }
}

extension ClientDataForm: ExpressibleByArgument {}
extension EnrolmentAlteration: ExpressibleByArgument {}
