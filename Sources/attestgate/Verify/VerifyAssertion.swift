internal import ArgumentParser
internal import Attestation
internal import Cryptography
internal import Encoding
internal import Vocabulary

struct VerifyAssertion: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "assertion",
        abstract: "Explain an assertion: what generateAssertion(_:clientDataHash:) returned.",
        discussion: "Exit status: 0 accepted, 1 refused, 2 usage error.")

    @Option(name: .customLong("app-id"), help: ArgumentHelp("Team id, full stop, bundle id.", valueName: "ID"))
    var appID: String

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp("The attested key: its 65-byte point, or DER SPKI.", valueName: "B64"))
    var publicKey: PublicKeyOption

    @Option(parsing: .unconditional, help: ArgumentHelp("The data that the app hashed with SHA-256.", valueName: "B64"))
    var clientData: Base64Option?

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp("The clientDataHash of the app, instead of --client-data.", valueName: "B64"))
    var clientDataHash: Base64Option?

    @Option(help: ArgumentHelp("The last accepted counter; 0 after the attestation.", valueName: "N"))
    var storedCounter: UInt32

    @OptionGroup var output: VerifyOutput

    func validate() throws {
        guard (clientData == nil) != (clientDataHash == nil) else {
            throw ValidationError("use either --client-data or --client-data-hash")
        }
        guard !appID.isEmpty else { throw ValidationError("--app-id is empty") }
    }

    func run() throws {
        let library = try LibraryContext()
        let point = try publicKey.point(library)
        let pasted = try output.read(expecting: [0xa2, 0xa3])
        let examination = AssertionExplanation(
            assertion: pasted.bytes, appID: appID, point: point, storedCounter: storedCounter,
            data: try ClientData(clientData, hash: clientDataHash, library), library: library)
        var verdict = try examination.verdict()
        verdict.notes = pasted.notes
        try output.finish(verdict)
    }
}

/// A verification of an assertion with the probable causes of a failure.
private struct AssertionExplanation {
    let assertion: [UInt8]
    let appID: String
    let point: [UInt8]
    let storedCounter: UInt32
    let data: ClientData
    let library: LibraryContext

    func verdict() throws -> Verdict {
        let key = try P256VerificationKey(point: point.span, library)
        let rpIDHash = try hash(Array(appID.utf8))
        let report = AssertionVerifier.report(
            assertion.span, clientDataHash: data.hash.span, key: key, rpIDHash: rpIDHash.span, digests: library)
        let steps = report.steps.map { step($0, report) }
        let isAccepted = steps.allSatisfy { $0.isPassed == true }
        return Verdict(
            subject: "assertion", isAccepted: isAccepted, steps: steps,
            causes: isAccepted ? [] : try causes(report, key), notes: [],
            members: try members(report, isApp: rpIDHash), facts: facts(report))
    }

    private func step(_ entry: AssertionReport.Entry, _ report: AssertionReport) -> Verdict.Step {
        let counter = report.data?.counter ?? 0
        let (isPassed, detail): (Bool?, String) =
            switch (entry.outcome, entry.step) {
            case (.refused(let fault), _): (false, "\(fault.reason)")
            case (.notReached, _), (.notDemanded, _): (nil, Verdict.Step.notReached)
            case (.passed, .form): (true, "\(assertion.count) bytes of CBOR")
            case (.passed, .rpID): (true, "SHA-256 of \(appID)")
            case (.passed, .counter) where counter <= storedCounter:
                (false, "\(counter) is not above \(storedCounter), the last one seen")
            case (.passed, .counter): (true, "\(counter), above \(storedCounter)")
            case (.passed, .signature): (true, "by the attested key, over this client data")
            }
        return Verdict.Step(name: entry.step.name, title: entry.step.title, isPassed: isPassed, detail: detail)
    }

    // MARK: - Causes

    private func causes(_ report: AssertionReport, _ key: P256VerificationKey) throws -> [String] {
        var causes: [String] = []
        for entry in report.steps {
            switch (entry.step, entry.outcome) {
            case (.form, .refused(let fault)):
                let mistaken = MistakenInput(assertion, expected: .assertion, library).explanation
                causes.append(mistaken ?? Self.formCause(fault, assertion.count))
            case (.rpID, .refused): causes.append(try appCause(report))
            case (.counter, .refused): causes.append("Counter 0 belongs to an attestation: this is not an assertion.")
            case (.counter, .passed) where (report.data?.counter ?? 0) <= storedCounter:
                causes.append(
                    "Replayed, or sent after a later assertion: each counter is accepted once. "
                        + "Parallel requests arrive out of order; a counter window accepts them.")
            case (.signature, .refused): causes.append(try signatureCause(report, key))
            default: break
            }
        }
        return causes
    }

    private static func formCause(_ fault: AssertionFault, _ count: Int) -> String {
        fault == .malformed(.truncated)
            ? "Cut off: it ends after \(count) bytes. A genuine one has at least 140; copy it again completely."
            : "This is not an App Attest assertion, or it was altered in transit."
    }

    private func appCause(_ report: AssertionReport) throws -> String {
        let found = report.data.map { Array(assertion[$0.rpIDHash]) } ?? []
        let given = appID.trimmed
        if given != appID, try hash(Array(given.utf8)) == found { return "Wrong app id: it ends with white space." }
        let bundle = given.split(separator: ".", maxSplits: 1).last.map(String.init) ?? ""
        if try hash(Array(bundle.utf8)) == found { return "The signer hashed the bundle id without the team id." }
        return AppID(appID) == nil
            ? "Wrong app id: \(appID) is not ten characters of team id, a full stop and the bundle id."
            : "Wrong app id: made by another app than \(appID), or for another team."
    }

    private func signatureCause(_ report: AssertionReport, _ key: P256VerificationKey) throws -> String {
        let verifier = try SignatureTrial(assertion, key, library)
        if let variant = try AlternativeHashes(data, name: "client data", library).all.first(where: {
            try verifier.fits($0.hash)
        }) {
            return variant.explanation + " With that, the signature is valid."
        }
        if try verifier.fitsHashedOnce(data.hash) {
            return "Hashed once: the signer signed the nonce as if it were a digest. "
                + "ECDSA with SHA-256 hashes the nonce again, as the Secure Enclave does."
        }
        return "The app used another key or other client data: none of the usual hashes matches. "
            + "Compare the key id with the app's, and the client data byte by byte."
    }

    // MARK: - Content

    private func hash(_ bytes: [UInt8]) throws -> [UInt8] { try library.sha256(of: bytes.span).bytes }

    private func members(_ report: AssertionReport, isApp rpIDHash: [UInt8]) throws -> [(String, ReportValue)] {
        let isApp = report.data.map { Array(assertion[$0.rpIDHash]) == rpIDHash } ?? false
        return [
            ("key_id", .string(Base64.encode(try hash(point)))),
            ("public_key", .string(Base64.encode(point))), ("app_id", isApp ? .string(appID) : .null),
            // An assertion does not state it, only the attestation of its key.
            ("environment", .null), ("counter", .optional(report.data.map { Int64($0.counter) })),
            ("extensions", extensions(report).json),
            ("flags", .optional(report.data.map { Int64($0.flags) })),
            ("stored_counter", .integer(Int64(storedCounter))),
        ]
    }

    private func facts(_ report: AssertionReport) -> [(String, String)] {
        guard let data = report.data else { return [] }
        let found = extensions(report)
        return [
            ("counter", "\(data.counter)"), ("validation category", found.validationCategory?.text ?? "absent"),
            ("bundle version", found.bundleVersion ?? "absent"),
        ]
    }

    private func extensions(_ report: AssertionReport) -> SignedExtensions {
        let found = report.data?.extensions
        return SignedExtensions(
            validationCategory: found?.validationCategory,
            bundleVersion: found?.bundleVersion.map { String(decoding: assertion[$0], as: UTF8.self) },
            codeDirectoryHash: found?.codeDirectoryHash.map { ($0.type, Array(assertion[$0.hash])) })
    }
}

/// A trial of other client data hashes on one assertion.
private struct SignatureTrial {
    private let data: [UInt8]
    private let signature: [UInt8]
    private let key: P256VerificationKey
    private let library: LibraryContext

    init(_ assertion: [UInt8], _ key: P256VerificationKey, _ library: LibraryContext) throws {
        let parts = try Assertion(assertion.span)
        data = Array(assertion[parts.authenticatorData.range])
        signature = Array(assertion[parts.signature])
        self.key = key
        self.library = library
    }

    func fits(_ hash: [UInt8]) throws -> Bool {
        let nonce = try library.sha256(of: data.span, hash.span)
        return key.verify(digest: try library.sha256(of: nonce.span), signature: signature.span)
    }

    func fitsHashedOnce(_ hash: [UInt8]) throws -> Bool {
        key.verify(digest: try library.sha256(of: data.span, hash.span), signature: signature.span)
    }
}

extension AssertionFault.Step {
    fileprivate var name: String {
        switch self {
        case .form: "form"
        case .rpID: "rp_id"
        case .counter: "counter"
        case .signature: "signature"
        }
    }

    fileprivate var title: String {
        switch self {
        case .form: "form of the assertion"
        case .rpID: "app (RP id hash)"
        case .counter: "counter is new"
        case .signature: "signature (client data hash)"
        }
    }
}

/// The content of authenticator data's extensions, for output.
struct SignedExtensions {
    var validationCategory: ValidationCategory?
    var bundleVersion: String?
    /// The hash and Apple's number of its function.
    var codeDirectoryHash: (type: UInt8, hash: [UInt8])?

    var isPresent: Bool { validationCategory != nil || bundleVersion != nil || codeDirectoryHash != nil }

    /// The JSON with Apple's names.
    var json: ReportValue {
        .object(
            [
                bundleVersion.map { ("apple_bundle_version_01", .string($0)) },
                validationCategory.map { ("apple_validation_category_01", .integer(Int64($0.rawValue))) },
                codeDirectoryHash.map { ("apple_cd_hash_hash_01", .string(Base64.encode($0.hash))) },
                codeDirectoryHash.map { ("apple_cd_hash_type_01", .integer(Int64($0.type))) },
            ].compactMap { $0 })
    }
}

extension ValidationCategory {
    var text: String {
        switch self {
        case .operatingSystem: "1, part of the system"
        case .testFlight: "2, TestFlight"
        case .development: "3, development"
        case .appStore: "4, App Store"
        case .enterprise: "5, enterprise or ad hoc"
        case .developerID: "6, Developer ID"
        case .other: "10, other"
        default: "\(rawValue)"
        }
    }
}
