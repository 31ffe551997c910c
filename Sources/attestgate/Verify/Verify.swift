internal import ArgumentParser
internal import Foundation

struct Verify: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Explain whether an attestation, an assertion or a receipt is accepted, and why not.",
        discussion: """
            Shows the result of each check and the likely cause of a refusal. FILE holds what the app sends, base64 \
            or binary; - is standard input. Exit status: 0 accepted, 1 refused, 2 usage error.
            """,
        subcommands: [VerifyAttestation.self, VerifyAssertion.self, VerifyReceipt.self])
}

/// What all of them take.
struct VerifyOutput: ParsableArguments {
    @Flag(help: "Print one JSON object.")
    var json = false

    @Argument(
        help: ArgumentHelp("What the app sent: base64 or binary; - for standard input.", valueName: "FILE"),
        completion: .file())
    var file: String

    /// Prints the verdict, and ends the command with its status.
    func finish(_ verdict: Verdict) throws {
        print(json ? verdict.json.text : verdict.text)
        guard verdict.isAccepted else { throw ExitCode.failure }
    }

    /// - Throws: wrong usage, if the file cannot be read.
    func read(expecting first: [UInt8]) throws -> PastedInput {
        guard let handle = file == "-" ? .standardInput : FileHandle(forReadingAtPath: file),
            // Far above everything that is admitted: a longer input is reported as too long.
            let data = try? handle.read(upToCount: 1 << 20) ?? Data()
        else { throw ValidationError("cannot read \(file)") }
        return PastedInput(Array(data), binaryBeginsWith: first)
    }
}
