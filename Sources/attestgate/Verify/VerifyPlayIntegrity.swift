internal import ArgumentParser
internal import Attestation
internal import Cryptography
internal import Encoding
internal import Foundation

struct VerifyPlayIntegrity: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "play-integrity",
        abstract: "Explain a token of the Play Integrity API.",
        discussion: """
            Decrypts it with the app's keys of the Play Console. Exit status: 0 accepted, 1 refused, 2 usage error.
            """)

    @Option(
        name: .customLong("decryption-key"),
        help: ArgumentHelp("The AES key, base64 of 32 bytes.", valueName: "FILE"), completion: .file())
    var decryptionKey: String

    @Option(
        name: .customLong("verification-key"),
        help: ArgumentHelp("Google's public key for the app, base64 or PEM.", valueName: "FILE"), completion: .file())
    var verificationKey: String

    @Option(name: .customLong("app-id"), help: ArgumentHelp("android: and the package name.", valueName: "ID"))
    var appID: String?

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp("What the app bound the token to, decoded; without it not compared.", valueName: "B64"))
    var nonce: Base64Option?

    @Option(help: ArgumentHelp("The verdict that the phone must have.", valueName: "VERDICT"))
    var device: String?

    @Option(help: ArgumentHelp("The time of arrival; default: now.", valueName: "RFC3339"))
    var at: TimeOption?

    @OptionGroup var output: VerifyOutput

    private static let prefix = "android:"

    func validate() throws {
        guard appID.map({ $0.hasPrefix(Self.prefix) && $0.count > Self.prefix.count }) ?? true else {
            throw ValidationError("--app-id is android: and the package name, as android:org.example.app")
        }
    }

    func run() throws {
        let library = try LibraryContext()
        let keys: IntegrityKeys
        do throws(IntegrityKeyFault) {
            keys = try IntegrityKeys(
                decryption: Self.read(decryptionKey), verification: Self.read(verificationKey), library)
        } catch {
            throw ValidationError("\(error == .decryption ? decryptionKey : verificationKey): \(error.reason)")
        }
        let demands = IntegrityDemands(package: appID.map { String($0.dropFirst(Self.prefix.count)) }, device: device)
        let text = try output.read()
        let isBlank = { (byte: UInt8) in byte == 0x20 || (0x09...0x0d).contains(byte) }
        let token = Array(text.drop(while: isBlank).reversed().drop(while: isBlank).reversed())
        let report = IntegrityVerifier(demands, keys, library).report(
            token, nonce: nonce?.bytes, at: at?.time.seconds ?? TimeOption.now)
        try output.finish(IntegrityExplanation(report: report).verdict)
    }

    private static func read(_ file: String) throws(IntegrityKeyFault) -> [UInt8] {
        FileManager.default.contents(atPath: file).map { Array($0) } ?? []
    }
}

/// The output of a report on a token.
private struct IntegrityExplanation {
    let report: IntegrityReport

    var verdict: Verdict {
        Verdict(
            subject: "integrity token", isAccepted: report.isAccepted, steps: report.steps.map(step),
            causes: causes, notes: [], members: [("payload", report.payload?.json ?? .null)], facts: facts)
    }

    private func step(_ entry: IntegrityReport.Entry) -> Verdict.Step {
        let (isPassed, detail): (Bool?, String) =
            switch entry.outcome {
            case .passed: (true, self.detail(of: entry.step))
            case .refused(let fault): (false, explain(fault))
            case .notReached: (nil, Verdict.Step.notReached)
            case .notDemanded: (nil, "not compared: \(self.detail(of: entry.step))")
            }
        return Verdict.Step(name: entry.step.rawValue, title: "\(entry.step.title)", isPassed: isPassed, detail: detail)
    }

    private func detail(of step: IntegrityStep) -> String {
        let payload = report.payload
        switch step {
        case .form: return "A256KW, A256GCM"
        case .decryption: return "for this key"
        case .signature: return "ES256, right"
        case .payload: return "as documented"
        case .package: return payload?.requestPackage ?? ""
        case .nonce: return payload?.nonce ?? ""
        case .age: return payload.map { "\(InternetTime(seconds: $0.milliseconds / 1000))" } ?? ""
        case .recognition: return payload?.recognition ?? "not evaluated"
        case .certificate: return payload?.certificates.map { Hexadecimal.encode($0) }.joined(separator: ", ") ?? ""
        case .version: return payload?.version.map { "\($0)" } ?? "not evaluated"
        case .device: return payload?.devices.joined(separator: ", ") ?? ""
        }
    }

    private func explain(_ fault: IntegrityFault) -> String {
        switch fault {
        case .packageMismatch: "\(fault.reason): \(report.payload?.requestPackage ?? "")"
        case .nonceMismatch: "\(fault.reason): \(report.payload?.nonce ?? "")"
        case .recognition(let verdict): "\(fault.reason): \(verdict ?? "not evaluated")"
        case .tooOld, .fromTheFuture: "\(fault.reason): \(detail(of: .age))"
        case .device: "\(fault.reason): it has \(report.payload?.devices.joined(separator: ", ") ?? "none")"
        case .checkFailed(let error): "\(fault.reason): \(error)"
        default: fault.reason
        }
    }

    private var causes: [String] {
        report.steps.compactMap(\.outcome.fault).compactMap { fault in
            switch fault {
            case .malformed: "This is no token, or it was truncated: it has five parts and four full stops."
            case .notForKey: "The decryption key is of another app, or was changed in the Play Console."
            case .signature: "The verification key is of another app, or was changed in the Play Console."
            case .recognition: "The app was not installed from Google Play, or is a debug build."
            case .device: "An emulator, a rooted phone, or one whose bootloader is unlocked."
            case .nonceMismatch: "Another nonce or tag: the app passes base64url of the hash to setNonce."
            default: nil
            }
        }
    }

    private var facts: [(String, String)] {
        guard let payload = report.payload else { return [] }
        var facts = [("package", payload.requestPackage), ("requested", detail(of: .age))]
        facts.append(("app", payload.recognition ?? "not evaluated"))
        facts.append(("device", payload.devices.isEmpty ? "none" : payload.devices.joined(separator: ", ")))
        if let licensing = payload.licensing { facts.append(("licensing", licensing)) }
        return facts
    }
}

extension IntegrityPayload {
    /// The members as Google names them.
    fileprivate var json: ReportValue {
        .object([
            (
                "requestDetails",
                .object([
                    ("requestPackageName", .string(requestPackage)), ("nonce", .string(nonce)),
                    ("timestampMillis", .string("\(milliseconds)")),
                ])
            ),
            (
                "appIntegrity",
                .object([
                    ("appRecognitionVerdict", .optional(recognition)), ("packageName", .optional(package)),
                    ("certificateSha256Digest", .array(certificates.map { .string(Base64URL.encode($0)) })),
                    ("versionCode", .optional(version.map { "\($0)" })),
                ])
            ),
            (
                "deviceIntegrity",
                .object([
                    ("deviceRecognitionVerdict", .array(devices.map { .string($0) })),
                    ("deviceAttributes", .object([("sdkVersion", .optional(sdkVersion))])),
                ])
            ),
            ("accountDetails", .object([("appLicensingVerdict", .optional(licensing))])),
        ])
    }
}
