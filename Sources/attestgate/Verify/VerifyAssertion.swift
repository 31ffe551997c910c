internal import ArgumentParser
internal import Attestation
internal import Cryptography
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
