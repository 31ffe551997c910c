internal import ArgumentParser
internal import Attestation
internal import Cryptography
internal import Encoding
internal import Foundation
internal import Vocabulary

struct VerifyAttestation: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "attestation",
        abstract: "Explain an attestation: what attestKey(_:clientDataHash:) returned.",
        discussion: """
            Exit status: 0 accepted, 1 refused, 2 usage error.

            Attestation certificates are valid for days: use --at for the time of arrival.
            """)

    enum Environment: String, ExpressibleByArgument, CaseIterable {
        case production
        case development
        case any
    }

    @Option(name: .customLong("app-id"), help: ArgumentHelp("Team id, full stop, bundle id.", valueName: "ID"))
    var appID: String

    @Option(
        name: .customLong("key-id"), parsing: .unconditional,
        help: ArgumentHelp("The key id sent with it.", valueName: "B64"))
    var keyID: Base64Option

    @Option(
        parsing: .unconditional, help: ArgumentHelp("The challenge that the app hashed with SHA-256.", valueName: "B64")
    )
    var challenge: Base64Option?

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp("The clientDataHash of the app, instead of --challenge.", valueName: "B64"))
    var clientDataHash: Base64Option?

    @Option(help: "The environment of the key.")
    var environment = Environment.any

    @Option(help: ArgumentHelp("The time of arrival; default: now.", valueName: "RFC3339"))
    var at: TimeOption?

    @Option(
        help: ArgumentHelp("A root to use instead of Apple's, for simulators.", valueName: "PEM"), completion: .file())
    var root: String?

    @OptionGroup var output: VerifyOutput

    func validate() throws {
        guard (challenge == nil) != (clientDataHash == nil) else {
            throw ValidationError("use either --challenge or --client-data-hash")
        }
        guard keyID.bytes.count == 32 else {
            throw ValidationError(
                "--key-id has \(keyID.bytes.count) bytes, not the 32 of a SHA-256: it was truncated, or is something else"
            )
        }
        guard !appID.isEmpty else { throw ValidationError("--app-id is empty") }
    }

    func run() throws {
        let library = try LibraryContext()
        let pasted = try output.read(expecting: [0xa2, 0xa3, 0xa4])
        let data = try ClientData(challenge, hash: clientDataHash, library)
        guard let id = KeyID(digest: keyID.bytes.span) else { throw ValidationError("--key-id is not a SHA-256") }
        let evidence = AttestationEvidence(attestation: pasted.bytes, clientDataHash: data.hash, keyID: id)
        let roots = try AttestationVerifier.Roots(apple: apple(library), receipts: AppleRoots.receipts(library))
        let verifier = try AttestationVerifier(apps: apps, roots: roots, library)
        let time = at?.time.seconds ?? TimeOption.now
        let report = verifier.report(evidence, at: time)
        let causes = AttestationCauses(
            report: report, evidence: evidence, data: data, appID: appID, time: time, hasOtherRoot: root != nil,
            library: library)
        var verdict = AttestationVerdict(report: report, evidence: evidence, appID: appID, time: time).verdict
        if !verdict.isAccepted { verdict.causes = try causes.all() }
        verdict.notes = pasted.notes
        try output.finish(verdict)
    }

    /// Apps for all platforms of App Attest, because this tool has no list of permitted ones.
    private var apps: [AttestedApp] {
        let platforms: Set<AttestedPlatform> = [.iOS, .macOS, .tvOS, .watchOS, .visionOS, .unstated]
        let other = ["macos", "tvos", "visionos", "ios", "ipados"].compactMap { AttestedPlatform($0) }
        let environments: [AttestedApp.Environment] =
            switch environment {
            case .production: [.production]
            case .development: [.development]
            case .any: [.production, .development]
            }
        return environments.map {
            AttestedApp(id: appID, environment: $0, platforms: platforms.union(other))
        }
    }

    private func apple(_ library: LibraryContext) throws -> TrustedRoot {
        guard let root else { return try AppleRoots.appAttestation(library) }
        guard let pem = FileManager.default.contents(atPath: root) else {
            throw ValidationError("cannot read \(root)")
        }
        do {
            let certificates = try Certificate.all(inPEM: Array(pem), library)
            guard certificates.count == 1 else { throw ValidationError("\(root) holds more than one certificate") }
            return try TrustedRoot(certificates[0], library)
        } catch let error as CryptographyError {
            throw ValidationError("\(root): \(error)")
        }
    }
}

/// The output of a report on an attestation.
struct AttestationVerdict {
    let report: AttestationReport
    let evidence: AttestationEvidence
    let appID: String
    let time: Int64

    private var found: AttestationFindings { report.findings }

    var verdict: Verdict {
        Verdict(
            subject: "attestation", isAccepted: report.verified != nil, steps: report.steps.map(step), causes: [],
            notes: [], members: members, facts: facts)
    }

    private func step(_ entry: AttestationReport.Entry) -> Verdict.Step {
        let (isPassed, detail): (Bool?, String) =
            switch entry.outcome {
            case .passed: (true, self.detail(of: entry.step))
            case .refused(let fault): (false, explain(fault))
            case .notReached: (nil, Verdict.Step.notReached)
            case .notDemanded(let fault): notDemanded(entry.step, fault)
            }
        return Verdict.Step(name: entry.step.rawValue, title: "\(entry.step.title)", isPassed: isPassed, detail: detail)
    }

    /// Returns the outcome of a check that is not required. It is accepted, and its content is shown.
    private func notDemanded(_ step: AttestationStep, _ fault: AttestationFault?) -> (Bool?, String) {
        if let fault { return (nil, "not demanded; \(fault.reason)") }
        return step == .receipt ? (nil, "not required and not present") : (true, detail(of: step))
    }

    private func detail(of step: AttestationStep) -> String {
        switch step {
        case .form: "\(evidence.attestation.count) bytes of CBOR, two certificates"
        case .rpID: "SHA-256 of \(appID)"
        case .counter: "0"
        case .environment: found.keyEnvironment?.rawValue ?? ""
        case .extensions: found.extensions.isPresent ? "as sent by iOS 27 and later" : "none, as up to iOS 26"
        case .validationCategory: found.validationCategory.map(\.text) ?? "absent"
        case .bundleVersion: found.bundleVersion ?? "absent"
        case .certificates: "leaf on P-256"
        case .keyID: Base64.encode(evidence.keyID.bytes)
        case .credentialID, .coseKey: "the same"
        case .nonceExtension: "one, of 32 bytes"
        case .nonce: "SHA-256 of authenticator data and client data hash"
        case .platform: found.systemText
        case .systemVersion: found.system?.version ?? "absent"
        case .authority: "the leaf is not a CA, the intermediate is"
        case .validity: "at \(InternetTime(seconds: time)); leaf \(found.leafValidity?.text ?? "")"
        case .chain: "over \(found.intermediateSubject ?? "")"
        case .receipt: found.receipt.map { "genuine, made at \($0.creation)" } ?? ""
        }
    }

    /// Returns the reason with the actual and expected values.
    private func explain(_ fault: AttestationFault) -> String {
        switch fault {
        case .rpIDMismatch:
            "\(fault.reason): found \(Hexadecimal.encode(found.rpIDHash ?? [])), not SHA-256 of \(appID)"
        case .keyIDMismatch:
            "\(fault.reason): that is \(found.keyID.map { Base64.encode($0.bytes) } ?? "unknown"), "
                + "and was sent as \(Base64.encode(evidence.keyID.bytes))"
        case .credentialIDMismatch: "\(fault.reason): it is \(Base64.encode(found.credentialID ?? []))"
        case .outsideValidity(let position, let validity):
            "the \(position.rawValue) is valid \(validity.text), not at \(InternetTime(seconds: time))"
        case .untrusted(let refusal): "\(fault.reason) (\(refusal.subject))"
        case .checkFailed(_, let error): "\(fault.reason): \(error)"
        default: fault.reason
        }
    }

    private var members: [(String, ReportValue)] {
        [
            ("key_id", .optional(found.keyID.map { Base64.encode($0.bytes) })),
            ("public_key", .optional(found.publicKey.map(Base64.encode))),
            // Only an app found by its hash or named in the leaf is printed, because anyone may have made the
            // attestation.
            ("app_id", .optional(isApp ? appID : found.appID)),
            ("environment", .optional(found.keyEnvironment?.rawValue)),
            ("counter", .optional(found.counter.map(Int64.init))), ("extensions", found.extensions.json),
            ("flags", .optional(found.flags.map(Int64.init))),
            ("platform", .optional(found.system?.platform.name)), ("os_version", .optional(found.system?.version)),
            ("os_build", .optional(found.system?.build)),
            ("leaf_not_before", .optional(found.leafValidity?.notBefore.map { "\(InternetTime(seconds: $0))" })),
            ("leaf_not_after", .optional(found.leafValidity?.notAfter.map { "\(InternetTime(seconds: $0))" })),
            ("at", .string("\(InternetTime(seconds: time))")), ("receipt", found.receipt?.json ?? .null),
        ]
    }

    private var isApp: Bool { report.steps.contains { $0.step == .rpID && $0.outcome == .passed } }

    private var facts: [(String, String)] {
        var facts: [(String, String)] = []
        func add(_ name: String, _ value: String?) { if let value { facts.append((name, value)) } }
        add("key id", found.keyID.map { Base64.encode($0.bytes) })
        add("public key", found.publicKey.map(Base64.encode))
        add("app", isApp ? appID : found.appID.map { "\($0) (stated by the leaf)" })
        add("environment", found.keyEnvironment?.rawValue)
        add("system", found.system == nil ? nil : found.systemText)
        add("leaf valid", found.leafValidity?.text)
        return facts
    }
}

extension AttestationFindings {
    var extensions: SignedExtensions {
        SignedExtensions(
            validationCategory: validationCategory, bundleVersion: bundleVersion, codeDirectoryHash: codeDirectoryHash)
    }

    var systemText: String {
        guard let system else { return "" }
        let version = system.version.map { " \($0)" } ?? ""
        let build = system.build.map { " (\($0))" } ?? ""
        return system.platform == .unstated
            ? "not stated, as up to iOS 17; system\(version)\(build)" : "\(system.platform.name)\(version)\(build)"
    }
}

extension Validity {
    var text: String {
        let times = [notBefore, notAfter].map { $0.map { "\(InternetTime(seconds: $0))" } ?? "?" }
        return "from \(times[0]) to \(times[1])"
    }
}

extension ReceiptFields {
    var json: ReportValue {
        .object([
            ("type", .string(kind.rawValue)), ("app_id", .string(appID)), ("environment", .optional(environment)),
            ("creation_time", .string("\(creation)")), ("expiration_time", .string("\(expiration)")),
            ("not_before", .optional(notBefore.map { "\($0)" })),
            ("risk_metric", .optional(riskMetric.map(Int64.init))),
            ("client_data_hash", .string(Base64.encode(clientDataHash))),
        ])
    }
}
