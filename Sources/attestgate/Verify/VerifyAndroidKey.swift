internal import ArgumentParser
internal import Attestation
internal import Cryptography
internal import Encoding
internal import Foundation

struct VerifyAndroidKey: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "android-key",
        abstract: "Explain a key attestation of Android: the certificates of getCertificateChain().",
        discussion: """
            FILE holds PEM certificates, leaf first, or a JSON array of base64 or base64url DER. Values that no option \
            states are shown and not compared. Exit status: 0 accepted, 1 refused, 2 usage error.
            """)

    enum Level: String, ExpressibleByArgument, CaseIterable {
        case tee
        case strongbox
    }

    enum Boot: String, ExpressibleByArgument, CaseIterable {
        case verified
        case any
    }

    @Option(name: .customLong("app-id"), help: ArgumentHelp("android: and the package name.", valueName: "ID"))
    var appID: String?

    @Option(
        name: .customLong("signing-certificate"), parsing: .singleValue,
        help: ArgumentHelp("SHA-256 of a certificate that signs the app; repeatable.", valueName: "HEX"))
    var signingCertificates: [HexadecimalOption] = []

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp("The client data that the app hashed with SHA-256.", valueName: "B64"))
    var challenge: Base64Option?

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp("The argument of setAttestationChallenge, instead of --challenge.", valueName: "B64"))
    var clientDataHash: Base64Option?

    @Option(name: .customLong("security-level"), help: "The lowest security level that is accepted.")
    var level = Level.tee

    @Option(
        name: .customLong("minimum-patch-level"),
        help: ArgumentHelp("The lowest patch level of system, vendor and boot.", valueName: "YYYY-MM"))
    var minimumPatchLevel: PatchLevelOption?

    @Option(help: "verified demands a locked bootloader and the maker's system.")
    var boot = Boot.verified

    @Option(help: ArgumentHelp("The time of arrival; default: now.", valueName: "RFC3339"))
    var at: TimeOption?

    @Option(
        parsing: .singleValue,
        help: ArgumentHelp("A root instead of Google's: a simulator's; repeatable.", valueName: "PEM"),
        completion: .file())
    var root: [String] = []

    @Option(
        name: .customLong("status-list"),
        help: ArgumentHelp("Google's list of revoked keys; without it revocation is not checked.", valueName: "FILE"),
        completion: .file())
    var statusList: String?

    @Flag(name: .customLong("chain-only"), help: "Judge only the chain. Show the key description.")
    var judgesChainOnly = false

    @OptionGroup var output: VerifyOutput

    private static let prefix = "android:"

    func validate() throws {
        guard challenge == nil || clientDataHash == nil else {
            throw ValidationError("use either --challenge or --client-data-hash")
        }
        guard appID.map({ $0.hasPrefix(Self.prefix) && $0.count > Self.prefix.count }) ?? true else {
            throw ValidationError("--app-id is android: and the package name, as android:org.example.app")
        }
        guard signingCertificates.allSatisfy({ $0.bytes.count == 32 }) else {
            throw ValidationError("--signing-certificate is a SHA-256 of 64 hexadecimal digits")
        }
    }

    func run() throws {
        let library = try LibraryContext()
        let certificates = CertificateInput(try output.read()).certificates
        let time = at?.time.seconds ?? TimeOption.now
        let list = try statusList.map(readList)
        let roots = KeyAttestationVerifier.Roots(google: try readRoots(library))
        func report(_ app: AndroidApp, _ hash: [UInt8]) -> KeyAttestationReport {
            KeyAttestationVerifier(apps: [app], roots: roots, library).report(
                KeyAttestationEvidence(certificates: certificates, clientDataHash: hash), at: time, list,
                judgesChainOnly: judgesChainOnly)
        }
        // The attestation states the values that no option does.
        let stated = report(AndroidApp(package: "", signingCertificates: []), []).description
        let application = stated?.softwareEnforced.application
        let app = AndroidApp(
            package: appID.map { String($0.dropFirst(Self.prefix.count)) } ?? application?.packages.first?.name ?? "",
            signingCertificates: signingCertificates.isEmpty
                ? application?.signingCertificates ?? [] : signingCertificates.map(\.bytes),
            securityLevel: level == .tee ? .trustedEnvironment : .strongBox, boot: boot == .any ? .any : .verified,
            minimumPatchLevel: minimumPatchLevel?.level)
        let data = try ClientData(challenge, hash: clientDataHash, library)
        let isCompared = challenge != nil || clientDataHash != nil
        let result = report(app, isCompared ? data.hash : stated?.attestationChallenge ?? [])
        var notCompared: Set<KeyAttestationStep> = isCompared ? [] : [.challenge]
        if appID == nil, signingCertificates.isEmpty { notCompared.insert(.application) }
        let verdict = KeyAttestationVerdict(report: result, notCompared: notCompared, count: certificates.count)
        try output.finish(verdict.verdict)
    }

    private func readList(_ file: String) throws -> AttestationStatusList {
        guard let text = FileManager.default.contents(atPath: file) else {
            throw ValidationError("cannot read \(file)")
        }
        do {
            return try AttestationStatusList(Array(text))
        } catch {
            throw ValidationError("\(file) is no status list: \(error.reason)")
        }
    }

    private func readRoots(_ library: LibraryContext) throws -> [Certificate] {
        guard !root.isEmpty else { return try GoogleRoots.keyAttestation(library) }
        return try root.flatMap { file in
            guard let pem = FileManager.default.contents(atPath: file) else {
                throw ValidationError("cannot read \(file)")
            }
            do {
                return try Certificate.all(inPEM: Array(pem), library)
            } catch let error as CryptographyError {
                throw ValidationError("\(file): \(error)")
            }
        }
    }
}

/// An argument with bytes in hexadecimal; colons may divide them.
struct HexadecimalOption: ExpressibleByArgument {
    let bytes: [UInt8]

    init?(argument: String) {
        guard let bytes = Hexadecimal.decode(argument.replacing(":", with: "").lowercased()) else { return nil }
        self.bytes = bytes
    }
}

/// An argument with a year and a month.
struct PatchLevelOption: ExpressibleByArgument {
    /// As Android writes it: 202601.
    let level: UInt64

    init?(argument: String) {
        let parts = argument.split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 2, parts[0].count == 4, parts[1].count == 2, let year = UInt64(parts[0]),
            let month = UInt64(parts[1]), (1...12).contains(month)
        else { return nil }
        level = year * 100 + month
    }
}

/// The certificates of an input: PEM, or a JSON array of base64 or base64url. Empty if it is neither.
private struct CertificateInput {
    /// One that cannot be decoded is empty.
    let certificates: [[UInt8]]

    init(_ content: [UInt8]) {
        if let array = try? JSONDecoder().decode([String].self, from: Data(content)) {
            certificates = array.map { Base64Text($0)?.bytes ?? [] }
        } else {
            let blocks = String(decoding: content, as: UTF8.self).components(separatedBy: "-----BEGIN CERTIFICATE-----")
            certificates = blocks.dropFirst().map { block in
                let parts = block.components(separatedBy: "-----END CERTIFICATE-----")
                return parts.count == 2 ? Base64Text(parts[0])?.bytes ?? [] : []
            }
        }
    }
}

/// The output of a report on a key attestation.
private struct KeyAttestationVerdict {
    let report: KeyAttestationReport
    /// Steps whose expected value no option states.
    let notCompared: Set<KeyAttestationStep>
    let count: Int

    var verdict: Verdict {
        Verdict(
            subject: "key attestation", isAccepted: report.isAccepted, steps: report.steps.map(step), causes: causes,
            notes: [],
            members: [
                ("public_key", .optional(report.publicKey.map(Base64.encode))),
                ("serials", .array(report.serials.map { .string($0.hexadecimal) })),
                ("key_description", report.description?.json ?? .null),
            ], facts: facts)
    }

    private func step(_ entry: KeyAttestationReport.Entry) -> Verdict.Step {
        let (isPassed, detail): (Bool?, String) =
            switch entry.outcome {
            case .passed where notCompared.contains(entry.step): (nil, "not compared: \(self.detail(of: entry.step))")
            case .passed: (true, self.detail(of: entry.step))
            case .refused(let fault): (false, explain(fault))
            case .notReached: (nil, Verdict.Step.notReached)
            case .notDemanded(let fault): (nil, fault.map { "not demanded; \($0.reason)" } ?? "not demanded")
            }
        return Verdict.Step(name: entry.step.rawValue, title: "\(entry.step.title)", isPassed: isPassed, detail: detail)
    }

    private func detail(of step: KeyAttestationStep) -> String {
        let description = report.description
        let hardware = description?.hardwareEnforced
        switch step {
        case .certificates: return "\(count) certificates"
        case .root: return "a trusted key"
        case .signatures: return "each issued and signed by the next"
        case .provisioning: return "of a known kind, with its length"
        case .validity: return "all that must be valid are"
        case .keyDescription: return "version \(description?.attestationVersion ?? 0), in the leaf"
        case .securityLevel: return description?.attestationSecurityLevel.name ?? ""
        case .key: return "generated in hardware, for signatures"
        case .challenge: return Base64.encode(description?.attestationChallenge ?? [])
        case .application: return description?.softwareEnforced.application?.packages.first?.name ?? ""
        case .boot: return hardware?.rootOfTrust.map { "locked, \($0.bootState.name)" } ?? ""
        case .patchLevel: return hardware?.number(.osPatchLevel).map { "system \($0)" } ?? ""
        case .revocation: return "on no list"
        }
    }

    private func explain(_ fault: KeyAttestationFault) -> String {
        switch fault {
        case .outsideValidity(_, let validity): "\(fault.reason): it is valid \(validity.text)"
        case .challengeMismatch:
            "\(fault.reason): it is \(Base64.encode(report.description?.attestationChallenge ?? []))"
        case .packageMismatch:
            "\(fault.reason): \(report.description?.softwareEnforced.application?.packages.first?.name ?? "")"
        case .checkFailed(_, let error): "\(fault.reason): \(error.description)"
        default: fault.reason
        }
    }

    private var causes: [String] {
        report.steps.compactMap(\.outcome.fault).compactMap { fault in
            switch fault {
            case .certificateCount(0): "The input is neither PEM certificates nor a JSON array of base64, up to 1 MiB."
            case .certificateCount(1): "Send all that getCertificateChain() returns, not the first certificate alone."
            case .certificateUnreadable: "A certificate was truncated or altered in transit, or is not DER."
            case .rootUnknown where report.description?.attestationSecurityLevel == .software:
                "The key is in software: an emulator, or a phone without a keystore in hardware."
            case .rootUnknown: "An emulator, a simulator without --root, or a chain that is not of this phone."
            case .issuerMismatch: "The certificates are not in their order, leaf first, or one is missing."
            case .keyDescriptionAbove: "setAttestKeyAlias made the key: the app needs attest_key: allow."
            case .leafKey: "Generate the key with ECGenParameterSpec(\"secp256r1\")."
            case .authorization(.purpose): "Generate the key with KeyProperties.PURPOSE_SIGN."
            case .challengeMismatch: "Another nonce or tag, or the hash of a hash: compare what the app passed."
            case .signingCertificateMismatch:
                "The app is a debug build, or Google Play signs it: use the certificate of the Play Console."
            case .bootloaderUnlocked, .bootState: "A phone for development; --boot any accepts it."
            case .revoked: "Google has revoked the phone's attestation key."
            default: nil
            }
        }
    }

    private var facts: [(String, String)] {
        guard let description = report.description else { return [] }
        var facts = [("security level", description.attestationSecurityLevel.name)]
        if let application = description.softwareEnforced.application {
            for package in application.packages { facts.append(("app", "\(package.name), version \(package.version)")) }
            for digest in application.signingCertificates {
                facts.append(("signed by", Hexadecimal.encode(digest)))
            }
        }
        if let root = description.hardwareEnforced.rootOfTrust {
            facts.append(("boot", "\(root.bootState.name), \(root.isLocked ? "locked" : "unlocked")"))
        }
        if let level = description.hardwareEnforced.number(.osPatchLevel) { facts.append(("patch level", "\(level)")) }
        if let point = report.publicKey { facts.append(("public key", Base64.encode(point))) }
        return facts
    }
}

extension StatusListFault {
    fileprivate var reason: String {
        switch self {
        case .malformed(let fault): "\(fault.reason)"
        case .entriesMissing: "it has no entries"
        case .statusMissing: "an entry has no status"
        }
    }
}

extension KeyDescription {
    fileprivate var json: ReportValue {
        .object([
            ("attestationVersion", .number(attestationVersion)),
            ("attestationSecurityLevel", .string(attestationSecurityLevel.name)),
            ("keyMintVersion", .number(keyMintVersion)),
            ("keyMintSecurityLevel", .string(keyMintSecurityLevel.name)),
            ("attestationChallenge", .string(Base64.encode(attestationChallenge))),
            ("softwareEnforced", softwareEnforced.json), ("hardwareEnforced", hardwareEnforced.json),
        ])
    }
}

extension AuthorizationList {
    /// Android's names of the tags; others are shown by their numbers.
    private static let names: [UInt32: String] = [
        1: "purpose", 2: "algorithm", 3: "keySize", 4: "blockMode", 5: "digest", 6: "padding", 10: "ecCurve",
        200: "rsaPublicExponent", 203: "mgfDigest", 303: "rollbackResistance", 305: "earlyBootOnly",
        400: "activeDateTime", 401: "originationExpireDateTime", 402: "usageExpireDateTime", 405: "usageCountLimit",
        503: "noAuthRequired", 504: "userAuthType", 505: "authTimeout", 506: "allowWhileOnBody",
        507: "trustedUserPresenceRequired", 508: "trustedConfirmationRequired", 509: "unlockedDeviceRequired",
        600: "allApplications", 701: "creationDateTime", 702: "origin", 704: "rootOfTrust", 705: "osVersion",
        706: "osPatchLevel", 709: "attestationApplicationId", 718: "vendorPatchLevel", 719: "bootPatchLevel",
        720: "deviceUniqueAttestation", 724: "moduleHash",
    ]

    fileprivate var json: ReportValue {
        .object(
            values.sorted { $0.key.number < $1.key.number }.compactMap { tag, value in
                value.json.map { (Self.names[tag.number] ?? "\(tag.number)", $0) }
            })
    }
}

extension AuthorizationList.Value {
    fileprivate var json: ReportValue? {
        switch self {
        case .flag: .bool(true)
        case .number(let number): .number(number)
        case .numbers(let numbers): .array(numbers.map { .number($0) })
        case .bytes(let bytes): .string(Hexadecimal.encode(bytes))
        case .rootOfTrust(let root):
            .object(
                [
                    ("verifiedBootKey", .string(Hexadecimal.encode(root.verifiedBootKey))),
                    ("deviceLocked", .bool(root.isLocked)), ("verifiedBootState", .string(root.bootState.name)),
                ] + (root.verifiedBootHash.map { [("verifiedBootHash", .string(Hexadecimal.encode($0)))] } ?? []))
        case .application(let application):
            .object([
                (
                    "packages",
                    .array(
                        application.packages.map {
                            .object([("name", .string($0.name)), ("version", .number($0.version))])
                        })
                ),
                (
                    "signatureDigests",
                    .array(application.signingCertificates.map { .string(Hexadecimal.encode($0)) })
                ),
            ])
        case .withheld: nil
        }
    }
}

extension ReportValue {
    fileprivate static func number(_ value: UInt64) -> ReportValue {
        Int64(exactly: value).map { .integer($0) } ?? .string("\(value)")
    }
}
