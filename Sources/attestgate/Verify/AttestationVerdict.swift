internal import Attestation
internal import Vocabulary

/// How the report on an attestation is shown.
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

    /// What nobody demands is accepted, and shown as it is.
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
        case .keyID: Base64Text.encode(evidence.keyID.bytes)
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

    /// The reason, with what was found and what was expected.
    private func explain(_ fault: AttestationFault) -> String {
        switch fault {
        case .rpIDMismatch:
            "\(fault.reason): found \(Hexadecimal.encode(found.rpIDHash ?? [])), not SHA-256 of \(appID)"
        case .keyIDMismatch:
            "\(fault.reason): that is \(found.keyID.map { Base64Text.encode($0.bytes) } ?? "unknown"), "
                + "and was sent as \(Base64Text.encode(evidence.keyID.bytes))"
        case .credentialIDMismatch: "\(fault.reason): it is \(Base64Text.encode(found.credentialID ?? []))"
        case .outsideValidity(let position, let validity):
            "the \(position.rawValue) is valid \(validity.text), not at \(InternetTime(seconds: time))"
        case .untrusted(let refusal): "\(fault.reason) (\(refusal.subject))"
        case .checkFailed(_, let error): "\(fault.reason): \(error)"
        default: fault.reason
        }
    }

    private var members: [(String, ReportValue)] {
        [
            ("key_id", .optional(found.keyID.map { Base64Text.encode($0.bytes) })),
            ("public_key", .optional(found.publicKey.map(Base64Text.encode))),
            // Only an app that was found by its hash, or one that the leaf names, is printed: anyone may have made the
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
        add("key id", found.keyID.map { Base64Text.encode($0.bytes) })
        add("public key", found.publicKey.map(Base64Text.encode))
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
            ("client_data_hash", .string(Base64Text.encode(clientDataHash))),
        ])
    }
}
