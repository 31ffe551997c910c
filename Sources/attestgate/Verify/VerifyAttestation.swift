internal import ArgumentParser
internal import Attestation
internal import Cryptography
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

    /// Every platform that App Attest exists on: this tool has no list of them.
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
