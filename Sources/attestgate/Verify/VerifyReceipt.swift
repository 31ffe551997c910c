internal import ArgumentParser
internal import Attestation
internal import Cryptography

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
