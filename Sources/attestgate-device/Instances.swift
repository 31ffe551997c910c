internal import ArgumentParser
internal import CCurl
internal import Cryptography
internal import DeviceSimulator
internal import Encoding
internal import Foundation
internal import TrustClient

struct Instances: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Use the listener for enrolled devices: list a person's devices, revoke one, show a new posture.",
        discussion: """
            The response goes to standard output. To renew the certificate there, use `enrol` with --devices.

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

        @OptionGroup(title: "Transfer") var transfer: TransferOptions

        func validate() throws {
            guard EnrolmentServiceAddress(url: devices) != nil else {
                throw ValidationError("--devices must have the form https://HOST[:PORT][/PATH]")
            }
        }

        private var base: String { EnrolmentServiceAddress(url: devices)?.url ?? devices }

        fileprivate func transfer(of device: DeviceDirectory) throws -> CurlTransfer {
            let (transfer, resolve) = (transfer, CurlList(transfer.resolve))
            return try CurlTransfer(isHTTP2: transfer.http2) { try transfer.apply(to: $0, device, resolve) }
        }

        /// Sends a request and shows its response.
        ///
        /// - Parameter content: JSON. Nil for a request without content and proof.
        fileprivate func send(_ method: String, _ path: String, _ content: [UInt8]? = nil) throws {
            let library = try LibraryContext()
            let device = try DeviceDirectory(opening: directory)
            let lines = content == nil ? [] : [HeaderLine(name: "Content-Type", value: "application/json")]
            var plan = try RequestRunner.Plan(method: method, url: base + path, lines: lines, content: content)
            plan.hasProof = content != nil
            let isVerbose = transfer.verbose
            let runner = try RequestRunner(
                plan, PhoneOptions.parse([]).phone(device, library), isGenuine: true, transfer(of: device), library,
                include: transfer.include, trace: { if isVerbose { Terminal.say($0) } })
            if try runner.run() >= 400 { throw ExitCode(1) }
        }

        /// Fetches a nonce.
        fileprivate func nonce(for device: DeviceDirectory) throws -> String {
            struct Answer: Decodable {
                let nonce: String
            }
            var received: [UInt8] = []
            let head = try transfer(of: device).perform(
                CurlTransfer.Outgoing(method: "GET", url: base + "/nonce", lines: [])
            ) { _, bytes in
                received += bytes
                return received.count <= EnrolmentAnswer.contentLimit
            }
            guard head.status == 200, let answer = try? JSONDecoder().decode(Answer.self, from: Data(received)) else {
                throw SimulatorError("no nonce: status \(head.status) \(String(decoding: received, as: UTF8.self))")
            }
            return answer.nonce
        }
    }

    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "List the devices of the person; without a person only the device itself.")

        @OptionGroup var options: Options

        func run() throws { try options.send("GET", "/instances") }
    }

    struct Revoke: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Revoke a device of the person, such as a lost one.")

        @OptionGroup var options: Options

        @Argument(help: ArgumentHelp("The id in the list.", valueName: "ID"))
        var instance: String

        func run() throws { try options.send("PATCH", "/instances/\(instance)", Array(#"{"status":"REVOKED"}"#.utf8)) }
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

        @OptionGroup(title: "Android phones") var android: AndroidOptions

        func run() throws {
            let device = try DeviceDirectory(opening: options.directory)
            let nonce = try options.nonce(for: device)
            var body = #"{"nonce":"\#(nonce)""#
            if device.appID.isAndroid {
                let keystore = SimulatedKeystore(
                    device, authority: attestationCa, try android.phone(of: device.appID, osVersion: osVersion))
                let chain = try keystore.attestNewKey(nonce: nonce).map { #""\#(Base64URL.encode($0))""# }
                body += #","key_attestation":[\#(chain.joined(separator: ","))]"#
            } else if osVersion != nil || !android.isEmpty {
                throw SimulatorError("an iPhone attests its key only once: the options are for Android phones")
            }
            try options.send("POST", "/attestation", Array((body + "}").utf8))
        }
    }
}
