public import ArgumentParser
public import DeviceSimulator

/// What is to be wrong with the proof, so that every refusal can be seen.
struct AlterationOptions: ParsableArguments {
    @Option(help: ArgumentHelp("Sign this method instead of the one that is sent.", valueName: "METHOD"))
    var signMethod: String?
    @Option(help: ArgumentHelp("Sign this path.", valueName: "PATH"))
    var signPath: String?
    @Option(help: ArgumentHelp("Sign this query (without its question mark).", valueName: "QUERY"))
    var signQuery: String?
    @Option(help: ArgumentHelp("Sign this authority.", valueName: "HOST"))
    var signAuthority: String?
    @Option(
        parsing: .unconditional,
        help: ArgumentHelp("Sign and send the digest of this content: DATA, or @FILE.", valueName: "DATA"))
    var signData: String?
    @Option(help: ArgumentHelp("Sign and send this Content-Digest.", valueName: "VALUE"))
    var contentDigest: String?
    @Option(help: ArgumentHelp("Do not cover this component; can be repeated.", valueName: "COMPONENT"))
    var omit: [String] = []

    @Option(parsing: .unconditional, help: ArgumentHelp("Add this to `created`.", valueName: "SECONDS"))
    var createdOffset: Int64 = 0
    @Option(
        parsing: .unconditional,
        help: ArgumentHelp("The lifetime of the proof, counted from `created`.", valueName: "SECONDS"))
    var expires: Int64?
    @Option(help: ArgumentHelp("Use this challenge and do not fetch one.", valueName: "TEXT"))
    var nonce: String?
    @Option(help: ArgumentHelp("Claim this key id.", valueName: "B64"))
    var keyid: String?
    @Option(help: ArgumentHelp("Name this algorithm.", valueName: "TEXT"))
    var alg: String?
    @Option(help: ArgumentHelp("Use this label for both members instead of `attest`.", valueName: "TEXT"))
    var label: String?
    @Option(help: ArgumentHelp("Use this tag instead of `attestgate-request`.", valueName: "TEXT"))
    var tag: String?
    @Option(help: "Corrupt this part after signing: signature, assertion or signature-input.")
    var corrupt: ProofAlterations.Corruption?

    func alterations() throws -> ProofAlterations {
        var alterations = ProofAlterations()
        alterations.method = signMethod
        alterations.path = signPath
        alterations.query = signQuery
        alterations.authority = signAuthority
        alterations.content = try signData.map(RequestBody.read)
        alterations.contentDigest = contentDigest
        alterations.omitted = omit.map { $0.lowercased() }
        alterations.createdOffset = createdOffset
        alterations.expires = expires
        alterations.nonce = nonce
        alterations.keyID = keyid
        alterations.algorithm = alg
        alterations.label = label
        alterations.tag = tag
        alterations.corruption = corrupt
        return alterations
    }

    func validate() throws {
        let year: ClosedRange<Int64> = -31_536_000...31_536_000
        guard year.contains(createdOffset), year.contains(expires ?? 0) else {
            throw ValidationError("--created-offset and --expires must be at most a year")
        }
        for text in [contentDigest, nonce, keyid, alg, label, tag].compactMap(\.self)
        where text.utf8.contains(where: { $0 < 0x20 || $0 == 0x7f }) {
            throw ValidationError("values in a proof must not contain control characters")
        }
    }
}

extension ProofAlterations.Corruption: ExpressibleByArgument {}
