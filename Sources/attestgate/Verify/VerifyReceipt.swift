internal import ArgumentParser
internal import Attestation
internal import Cryptography
internal import Encoding

struct VerifyReceipt: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "receipt",
        abstract: "Explain a receipt: from an attestation, or exchanged with Apple.",
        discussion: "Exit status: 0 accepted, 1 refused, 2 usage error.")

    @Option(name: .customLong("app-id"), help: ArgumentHelp("Team id, full stop, bundle id.", valueName: "ID"))
    var appID: String

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp("The attested key: its 65-byte point, or DER SPKI.", valueName: "B64"))
    var publicKey: PublicKeyOption

    @Option(help: ArgumentHelp("The time of verification; default: now.", valueName: "RFC3339"))
    var at: TimeOption?

    @OptionGroup var output: VerifyOutput

    func validate() throws {
        guard !appID.isEmpty else { throw ValidationError("--app-id is empty") }
    }

    func run() throws {
        let library = try LibraryContext()
        let point = try publicKey.point(library)
        let pasted = try output.read(expecting: [0x30])
        let time = at?.time.seconds ?? TimeOption.now
        let verifier = ReceiptVerifier(root: try AppleRoots.receipts(library), library)
        let report = verifier.report(pasted.bytes, ReceiptExpectation(appID: appID, publicKey: point), at: time)
        let explanation = ReceiptExplanation(
            report: report, receipt: pasted.bytes, appID: appID, point: point, time: time, library: library)
        var verdict = try explanation.verdict()
        verdict.notes = pasted.notes
        try output.finish(verdict)
    }
}

/// The output of a report on a receipt, with the probable causes of a failure.
private struct ReceiptExplanation {
    let report: ReceiptReport
    let receipt: [UInt8]
    let appID: String
    let point: [UInt8]
    let time: Int64
    let library: LibraryContext

    func verdict() throws -> Verdict {
        let keyID = try library.sha256(of: point.span).bytes
        return Verdict(
            subject: "receipt", isAccepted: report.verified != nil, steps: report.steps.map(step), causes: causes,
            notes: [], members: members(keyID), facts: facts)
    }

    private func step(_ entry: ReceiptReport.Entry) -> Verdict.Step {
        let (isPassed, detail): (Bool?, String) =
            switch entry.outcome {
            case .passed: (true, self.detail(of: entry.step))
            case .refused(let fault): (false, explain(fault))
            case .notReached: (nil, Verdict.Step.notReached)
            case .notDemanded: (nil, "compared when the receipt is inside its attestation")
            }
        return Verdict.Step(name: entry.step.rawValue, title: "\(entry.step.title)", isPassed: isPassed, detail: detail)
    }

    private func detail(of step: ReceiptStep) -> String {
        switch step {
        case .form: "\(receipt.count) bytes of CMS, type \(report.fields?.kind.rawValue ?? "")"
        case .appID: appID
        case .publicKey, .clientDataHash: "the same"
        case .creation: "\(report.fields.map { "\($0.creation)" } ?? ""), \(age) ago"
        case .expiration: report.fields.map { "\($0.expiration)" } ?? ""
        case .signer: report.signer ?? ""
        case .authority: "the signer is not a CA, its issuer is"
        case .validity: "when the receipt was created"
        case .signature:
            report.coverage == .contentDespiteAttributes
                ? "over the payload although there are signed attributes, as in iOS 14.0" : "right"
        case .chain: "to Apple Root CA - G3"
        }
    }

    private var age: String {
        let seconds = max(0, time - (report.fields?.creation.seconds ?? time))
        return seconds < 172_800 ? "\(seconds / 3600) hours" : "\(seconds / 86_400) days"
    }

    private func explain(_ fault: ReceiptFault) -> String {
        switch fault {
        case .outsideValidity(let position, let validity): "the \(position.rawValue) is valid \(validity.text)"
        case .untrusted(let refusal): "\(fault.reason) (\(refusal.subject))"
        case .appIDMismatch: "\(fault.reason): \(report.fields?.appID ?? "")"
        default: fault.reason
        }
    }

    private var causes: [String] {
        report.steps.compactMap(\.outcome.fault).compactMap { fault in
            switch fault {
            case .tooLong, .message, .payload, .field:
                MistakenInput(receipt, expected: .receipt, library).explanation
                    ?? "This is not an App Attest receipt, or it was truncated or altered in transit."
            case .appIDMismatch:
                "Wrong app id: the receipt is for \(report.fields?.appID ?? "another app"), not for \(appID)."
            case .publicKeyMismatch: "The key belongs to another phone, or to another attestation on the same phone."
            case .fromTheFuture: "The time is before the receipt was made: check the clock or --at."
            case .expired, .tooOld: "Receipts are valid for about 90 days: exchange them with Apple before they expire."
            case .signatureInvalid: "The receipt was altered after Apple signed it."
            case .untrusted: "Apple did not sign this, or its certificates were altered in transit."
            default: nil
            }
        }
    }

    private func members(_ keyID: [UInt8]) -> [(String, ReportValue)] {
        let fields = report.fields
        return [
            ("key_id", .string(Base64.encode(keyID))), ("public_key", .string(Base64.encode(point))),
            ("app_id", .optional(fields?.appID)), ("environment", .optional(environment)), ("counter", .null),
            ("extensions", .object([])), ("type", .optional(fields?.kind.rawValue)),
            ("risk_metric", .optional(fields?.riskMetric.map(Int64.init))),
            ("creation_time", .optional(fields.map { "\($0.creation)" })),
            ("not_before", .optional(fields?.notBefore.map { "\($0)" })),
            ("expiration_time", .optional(fields.map { "\($0.expiration)" })),
            ("age_seconds", .optional(fields.map { time - $0.creation.seconds })), ("receipt", fields?.json ?? .null),
        ]
    }

    /// The environment in the words of the other commands. Apple says sandbox here.
    private var environment: String? {
        report.fields?.environment.map { $0 == "sandbox" ? KeyEnvironment.development.rawValue : $0 }
    }

    private var facts: [(String, String)] {
        guard let fields = report.fields else { return [] }
        return [
            ("app", fields.appID), ("type", fields.kind.rawValue), ("made", "\(fields.creation)"),
            ("expires", "\(fields.expiration)"), ("risk metric", fields.riskMetric.map { "\($0)" } ?? "none"),
        ]
    }
}
