public import ArgumentParser
internal import CCurl
internal import Cryptography
public import DeviceSimulator
internal import Encoding
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

    @Option(
        help: ArgumentHelp(
            "The service's listener for enrolled devices: an enrolled device renews there, with its certificate.",
            valueName: "URL"))
    var devices: String?

    @Option(help: ArgumentHelp("The device.", valueName: "DIR"), completion: .directory)
    var directory: String

    @Option(
        help: ArgumentHelp(
            """
            The app id, for example ABCDE12345.org.example.app or android:org.example.app; required if there is no \
            device yet.
            """, valueName: "ID"))
    var appId: String?

    @Option(
        help: ArgumentHelp(
            "The directory of the simulator's authority, created by `ca init` (default: the directory of --ca).",
            valueName: "DIR"),
        completion: .directory)
    var attestationCa: String?

    @Option(help: ArgumentHelp("Whose protocol the service has: attestgate, or gematik's, dsr."))
    var profile: EnrolmentProfile = .attestgate

    @Option(
        help: ArgumentHelp("With --profile dsr: the health card that `card` has made.", valueName: "DIR"),
        completion: .directory)
    var card: String?

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

    @Option(help: ArgumentHelp("The system version that the attestation states.", valueName: "VERSION"))
    var osVersion: String?

    @Option(
        help: ArgumentHelp(
            """
            Send one request with this error, and do not retry. Those that begin with attestation-, counter or mtls-, and \
            key-attestation, are for Android phones.
            """, valueName: "WHAT"))
    var alter: EnrolmentAlteration?

    @OptionGroup(title: "iPhones") var iPhone: IPhoneOptions
    @OptionGroup(title: "Android phones") var android: AndroidOptions
    @OptionGroup(title: "Transfer") var transfer: EnrolmentTransferOptions

    func validate() throws {
        guard service != nil else {
            throw ValidationError("--enrolment and --provider must have the form https://HOST[:PORT][/PATH]")
        }
        if let devices, EnrolmentServiceAddress(url: devices) == nil {
            throw ValidationError("--devices must have the form https://HOST[:PORT][/PATH]")
        }
        if let appId, AppID(appId) == nil {
            throw ValidationError("\(appId) is not of the form PREFIX.bundle.id or android:PACKAGE")
        }
        guard (profile == .dsr) == (card != nil) else {
            throw ValidationError("--profile dsr and --card belong together")
        }
        if profile == .dsr, alter != nil || rotate || admissionToken != nil || provider != nil {
            throw ValidationError("--alter, --rotate, --admission-token and --provider are not for --profile dsr")
        }
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
        if let card {
            return try register(device, by: try SoftwareCard(opening: card, library), at: service.url, library)
        }
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
        let platform = try platform(of: device)
        let transfer = transfer
        let resolve = CurlList(transfer.resolve)
        let runner = EnrolmentRunner(
            device, platform,
            try CurlTransfer(isHTTP2: transfer.http2) { try transfer.apply(to: $0, resolve) },
            authenticated: try CurlTransfer(isHTTP2: transfer.http2) { settings in
                try transfer.apply(to: settings, resolve)
                try settings.set(CURLOPT_SSLCERT, device.certificatePath)
                try settings.set(CURLOPT_SSLKEY, device.certificateKeyPath)
            }, devices: devices.flatMap { EnrolmentServiceAddress(url: $0)?.url }, library, alteration: alter)
        try runner.run(record, form: clientData, admissionToken: try admissionToken.map(token))
    }

    /// Registers the device as gematik's apps do.
    private func register(
        _ device: DeviceDirectory, by card: SoftwareCard, at url: String, _ library: LibraryContext
    ) throws {
        // A hardware key is attested once, so another registration needs new keys.
        guard !FileManager.default.fileExists(atPath: device.certificatePath) else {
            throw SimulatorError("the device in \(directory) is registered already: use another directory")
        }
        let transfer = transfer
        let resolve = CurlList(transfer.resolve)
        let service = DSRService(
            url: url, try CurlTransfer(isHTTP2: transfer.http2) { try transfer.apply(to: $0, resolve) })
        let phone = DSRPhone(device, try platform(of: device), library)
        let nonce = try service.nonce()
        let token = try phone.registration(nonce: nonce, card: card, now: Int64(Date().timeIntervalSince1970))
        Terminal.put(line: "attested the hardware key for \(card.number)")
        try phone.keep(certificate: try service.register(token))
        Terminal.put(line: "registered: \(device.certificatePath)")
    }

    private func openedOrMade(_ library: LibraryContext) throws -> DeviceDirectory {
        if let device = try? DeviceDirectory(opening: directory) {
            if let appId, device.appID.description != appId {
                throw SimulatorError("the device in \(directory) belongs to \(device.appID), not to \(appId)")
            }
            try checkOptions(for: device.appID)
            return device
        }
        guard let appId, let app = AppID(appId) else {
            throw SimulatorError("there is no device in \(directory): create one with --app-id")
        }
        try checkOptions(for: app)
        let device = try DeviceDirectory.create(directory, appID: app, library)
        Terminal.put(line: "created a device of \(app) in \(directory)")
        return device
    }

    /// Checks that each option belongs to the app's platform.
    private func checkOptions(for app: AppID) throws {
        guard app.isAndroid ? iPhone.isEmpty : android.isEmpty && alter?.isForAndroid != true else {
            throw SimulatorError("\(app) is no app of the platform to which an option belongs")
        }
        if app.isAndroid { _ = try android.phone(of: app, osVersion: osVersion) }
    }

    private func platform(of device: DeviceDirectory) throws -> any SimulatedPlatform {
        guard device.appID.isAndroid else {
            return SimulatedAttestor(
                device, authority: authority, form: iPhone.form ?? .iOS14, rpID: iPhone.rpId, systemVersion: osVersion)
        }
        return SimulatedKeystore(
            device, authority: authority, try android.phone(of: device.appID, osVersion: osVersion),
            form: profile == .dsr ? .dsr : clientData,
            attestsCertificateKey: !android.noMtlsAttestation, alteration: alter)
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

/// The options of an iPhone's attestations and assertions.
struct IPhoneOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "The operating system whose attestation form is used. (default: ios-14)", valueName: "SYSTEM"))
    var form: AssertionForm?

    @Option(help: ArgumentHelp("Use the hash of this text in place of the app id's.", valueName: "TEXT"))
    var rpId: String?

    var isEmpty: Bool { form == nil && rpId == nil }
}

/// The options of an Android phone's attestations.
struct AndroidOptions: ParsableArguments {
    enum SecurityLevel: String, CaseIterable, ExpressibleByArgument {
        case tee
        case strongbox
    }

    @Option(
        help: ArgumentHelp(
            "SHA-256 of the certificate that signed the app, 64 digits. (default: a5 32 times)", valueName: "HEX"))
    var signingCertificate: String?

    @Option(help: ArgumentHelp("The version code of the app. (default: 1)", valueName: "N"))
    var appVersion: UInt64?

    @Option(help: ArgumentHelp("Where the keys are. (default: tee)", valueName: "LEVEL"))
    var securityLevel: SecurityLevel?

    @Option(help: ArgumentHelp("How the phone got its attestation key. (default: factory)", valueName: "WAY"))
    var provisioning: AndroidPhone.Provisioning?

    @Option(help: ArgumentHelp("The patch level. (default: 2026-10)", valueName: "YYYY-MM"))
    var patchLevel: String?

    @Flag(help: "Do not attest the certificate key.")
    var noMtlsAttestation = false

    /// Whether no option was given.
    var isEmpty: Bool {
        signingCertificate == nil && appVersion == nil && securityLevel == nil && provisioning == nil
            && patchLevel == nil && !noMtlsAttestation
    }

    func validate() throws {
        if let signingCertificate, Hexadecimal.decode(signingCertificate)?.count != 32 {
            throw ValidationError("--signing-certificate is a SHA-256 of 64 lower-case hexadecimal digits")
        }
        if let patchLevel, Self.level(patchLevel) == nil {
            throw ValidationError("--patch-level is a year and a month, as 2026-10")
        }
    }

    /// Returns year and month as KeyMint states them: 202610.
    private static func level(_ text: String) -> UInt64? {
        let parts = text.split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 2, parts[0].count == 4, parts[1].count == 2, let year = UInt64(parts[0]),
            let month = UInt64(parts[1]), (1...12).contains(month)
        else { return nil }
        return year * 100 + month
    }

    /// Returns a version as KeyMint states it: two digits for each part, 160001 for 16.0.1.
    private static func version(_ text: String) -> UInt64? {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false).map { UInt64($0) }
        guard (1...3).contains(parts.count), parts.allSatisfy({ $0.map { $0 < 100 } ?? false }) else { return nil }
        return (0..<3).reduce(0) { $0 * 100 + ($1 < parts.count ? parts[$1] ?? 0 : 0) }
    }

    func phone(of app: AppID, osVersion: String?) throws -> AndroidPhone {
        var phone = AndroidPhone(package: String(app.description.dropFirst("android:".count)))
        if let signingCertificate, let digest = Hexadecimal.decode(signingCertificate) {
            phone.signingCertificate = digest
        }
        phone.version = appVersion ?? phone.version
        if securityLevel == .strongbox { phone.securityLevel = .strongBox }
        phone.provisioning = provisioning ?? phone.provisioning
        phone.patchLevel = patchLevel.flatMap(Self.level) ?? phone.patchLevel
        if let osVersion {
            guard let version = Self.version(osVersion) else {
                throw SimulatorError("\(osVersion) is no version of Android, such as 16 or 16.0.1")
            }
            phone.osVersion = version
        }
        return phone
    }
}

extension AndroidPhone.Provisioning: ExpressibleByArgument {}
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
