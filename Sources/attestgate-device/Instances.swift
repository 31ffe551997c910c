internal import ArgumentParser
internal import CCurl
internal import Cryptography
internal import DeviceSimulator
internal import Foundation
internal import TrustClient

struct Instances: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Use the listener for enrolled devices: list a person's devices, revoke one, show a new posture.",
        discussion: """
            The response goes to standard output. With --profile dsr, `list` and `revoke` need --user, and `attest` \
            prints a device token. To renew the certificate there, use `enrol` with --devices.

            Exit status: 0 success, 1 refused or something is missing, 2 usage error. Without a response, curl's exit \
            status, such as 7 for no connection or 56 for a refused certificate.
            """,
        subcommands: [List.self, Revoke.self, Attest.self])

    /// The options of all commands.
    struct Options: ParsableArguments {
        @Option(help: ArgumentHelp("The service's listener for enrolled devices.", valueName: "URL"))
        var devices: String

        @Option(help: ArgumentHelp("The device.", valueName: "DIR"), completion: .directory)
        var directory: String

        @Option(help: ArgumentHelp("Whose protocol the service has: attestgate, or gematik's, dsr."))
        var profile: EnrolmentProfile = .attestgate

        @Option(
            help: ArgumentHelp(
                "With --profile dsr: the number of the person, which is on the card.", valueName: "NUMBER"))
        var user: String?

        @OptionGroup(title: "Transfer") var transfer: TransferOptions

        func validate() throws {
            guard profile == .dsr || user == nil else { throw ValidationError("--user needs --profile dsr") }
            guard EnrolmentServiceAddress(url: devices) != nil else {
                throw ValidationError("--devices must have the form https://HOST[:PORT][/PATH]")
            }
        }

        fileprivate var base: String { EnrolmentServiceAddress(url: devices)?.url ?? devices }

        fileprivate func transfer(of device: DeviceDirectory) throws -> CurlTransfer {
            let (transfer, resolve) = (transfer, CurlList(transfer.resolve))
            return try CurlTransfer(isHTTP2: transfer.http2) { try transfer.apply(to: $0, device, resolve) }
        }

        /// Sends a request, with a proof if it has content, and shows its response.
        fileprivate func send(_ request: EnrolmentRequest) throws {
            let lines = request.fields.map { HeaderLine(name: $0.name, value: $0.value) }
            try send(request.method, request.url, lines, request.content)
        }

        fileprivate func send(
            _ method: String, _ url: String, _ lines: [HeaderLine] = [], _ content: [UInt8]? = nil
        ) throws {
            let library = try LibraryContext()
            let device = try DeviceDirectory(opening: directory)
            var plan = try RequestRunner.Plan(method: method, url: url, lines: lines, content: content)
            plan.hasProof = content != nil
            let isVerbose = transfer.verbose
            let runner = try RequestRunner(
                plan, PhoneOptions.parse([]).phone(device, library), isGenuine: true, transfer(of: device), library,
                include: transfer.include, trace: { if isVerbose { Terminal.say($0) } })
            if try runner.run() >= 400 { throw ExitCode(1) }
        }

        /// The URL of a person's registrations, with the id of one.
        fileprivate func registrations(_ device: String? = nil) throws -> String {
            guard let user else { throw ValidationError("--profile dsr needs --user") }
            let parameters = [("userIdentifier", user)] + (device.map { [("deviceIdentifier", $0)] } ?? [])
            return "\(base)/device-registrations?" + FormText.encode(parameters)
        }

        fileprivate func service(for device: DeviceDirectory) throws -> DSRService {
            DSRService(url: base, try transfer(of: device))
        }

        /// Fetches a nonce.
        fileprivate func nonce(for device: DeviceDirectory) throws -> EnrolmentNonce {
            let request = EnrolmentRequest(.nonce, atDevices: base)
            let (head, content) = try transfer(of: device).collect(
                CurlTransfer.Outgoing(method: request.method, url: request.url, lines: []))
            let answer = EnrolmentAnswer(status: head.status, date: nil, content: content)
            guard let nonce = answer.nonce else { throw SimulatorError("no nonce: \(answer.refusal)") }
            return nonce
        }
    }

    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "List the devices of the person; without a person only the device itself.")

        @OptionGroup var options: Options

        func run() throws {
            if options.profile == .dsr { return try options.send("GET", options.registrations()) }
            try options.send(EnrolmentRequest(.instances, atDevices: options.base))
        }
    }

    struct Revoke: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Revoke a device of the person, such as a lost one.")

        @OptionGroup var options: Options

        @Argument(help: ArgumentHelp("The id in the list.", valueName: "ID"))
        var instance: String

        func run() throws {
            if options.profile == .dsr { return try options.send("DELETE", options.registrations(instance)) }
            guard let request = EnrolmentRequest.revocation(atDevices: options.base, of: instance) else {
                throw ValidationError("\(instance) is no id of the list")
            }
            try options.send(request)
        }
    }

    struct Attest: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show a new posture.",
            discussion: """
                The proof of an iPhone is fresh evidence. An Android phone attests a new key; its options are those of \
                `enrol`.
                """)

        @OptionGroup var options: Options

        @Option(
            help: ArgumentHelp("The directory of the simulator's authority; for Android phones.", valueName: "DIR"),
            completion: .directory)
        var attestationCa = "."

        @Option(help: ArgumentHelp("The system version that the attestation states.", valueName: "VERSION"))
        var osVersion: String?

        @Option(help: ArgumentHelp("What the app states about the phone: a JSON object.", valueName: "JSON"))
        var signals: String?

        @OptionGroup(title: "Android phones") var android: AndroidOptions

        func run() throws {
            let device = try DeviceDirectory(opening: options.directory)
            if options.profile == .dsr { return try printDeviceToken(device) }
            let nonce = try options.nonce(for: device)
            var chain: [[UInt8]]?
            if device.appID.isAndroid {
                let keystore = SimulatedKeystore(
                    device, authority: attestationCa, try android.phone(of: device.appID, osVersion: osVersion))
                chain = try keystore.attestNewKey(nonce: nonce.text)
            } else if osVersion != nil || !android.isEmpty {
                throw SimulatorError("an iPhone attests its key only once: the options are for Android phones")
            }
            try options.send(
                EnrolmentRequest.attestation(
                    atDevices: options.base, nonce, signals: signals.map { Array($0.utf8) }, keyAttestation: chain))
        }

        private func printDeviceToken(_ device: DeviceDirectory) throws {
            let library = try LibraryContext()
            let platform: any SimulatedPlatform =
                device.appID.isAndroid
                ? SimulatedKeystore(
                    device, authority: attestationCa, try android.phone(of: device.appID, osVersion: osVersion))
                : SimulatedAttestor(device, authority: attestationCa)
            let service = try options.service(for: device)
            let phone = DSRPhone(device, platform, library)
            let token = try phone.attestation(nonce: service.nonce(), now: Int64(Date().timeIntervalSince1970))
            let verifier = try phone.codeVerifier()
            let code = try service.attest(token, challenge: phone.codeChallenge(of: verifier))
            Terminal.put(line: try service.deviceToken(code: code, verifier: verifier))
        }
    }
}
