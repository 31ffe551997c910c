public import ArgumentParser
internal import CCurl
internal import Cryptography
public import DeviceSimulator
internal import Foundation

/// The options for the phone that signs.
struct PhoneOptions: ParsableArguments {
    @Option(help: ArgumentHelp("Use this counter value; the stored one does not change.", valueName: "N"))
    var counter: UInt32?
    @Option(
        help: ArgumentHelp("Use the hash of this text in place of the app id's; not for Android.", valueName: "TEXT"))
    var rpId: String?
    @Option(
        help: ArgumentHelp("Sign with this P-256 key, but send the device's key id.", valueName: "PEM"),
        completion: .file())
    var hardwareKey: String?
    @Option(
        help:
            "The operating system whose assertion form is used: \(AssertionForm.allCases.map(\.rawValue).joined(separator: ", ")); not for Android. (default: ios-14)"
    )
    var form: AssertionForm?

    /// Whether the phone signs as it was registered.
    var isGenuine: Bool { counter == nil && rpId == nil && hardwareKey == nil }

    func phone(_ device: DeviceDirectory, _ library: LibraryContext) throws -> Phone {
        if device.appID.isAndroid, rpId != nil || form != nil {
            throw SimulatorError("--rp-id and --form change assertions, which an Android device does not make")
        }
        let own = try signer(device.hardwareKey(library), device, library)
        guard let hardwareKey else { return Phone(device, claims: own, signsWith: own, counter: counter) }
        let other = try PrivateKey(pem: RequestBody.file(hardwareKey), library)
        return Phone(device, claims: own, signsWith: try signer(other, device, library), counter: counter)
    }

    private func signer(
        _ key: PrivateKey, _ device: DeviceDirectory, _ library: LibraryContext
    ) throws -> ProofSigner {
        try ProofSigner(key, of: device.appID, rpID: rpId, form: form ?? .iOS14, library)
    }
}

extension AssertionForm: ExpressibleByArgument {}

extension DevicePlatform: ExpressibleByArgument {}

/// The options of the request's transfer, with curl's names.
struct TransferOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp("PEM file with the authorities of the server's certificate.", valueName: "FILE"),
        completion: .file())
    var cacert: String?

    @Option(help: ArgumentHelp("HOST:PORT:ADDRESS: connect there for that host and port.", valueName: "ENTRY"))
    var resolve: [String] = []

    @Flag(
        name: .customLong("http2"), help: "Use HTTP/2, and fail if the server does not support it (default: HTTP/1.1).")
    var http2 = false

    @Option(help: ArgumentHelp("The client certificate (DIR/certificate.pem).", valueName: "PEM"), completion: .file())
    var certificate: String?

    @Option(help: ArgumentHelp("Its private key (DIR/certificate-key.pem).", valueName: "PEM"), completion: .file())
    var certificateKey: String?

    @Flag(help: "Present no client certificate.")
    var noCertificate = false

    @Option(help: ArgumentHelp("The maximum time of a transfer, in seconds.", valueName: "SECONDS"))
    var maxTime = 300

    @Flag(name: [.customShort("i"), .long], help: "Print the head of the response before its content.")
    var include = false

    @Flag(name: .shortAndLong, help: "Write all actions to standard error, including libcurl's; proofs are shown.")
    var verbose = false

    @Flag(name: .shortAndLong, help: "Exit with status 22 if the response status is 400 or above.")
    var fail = false

    func validate() throws {
        guard (1...86_400).contains(maxTime) else { throw ValidationError("--max-time must be 1 to 86400 seconds") }
    }

    /// Sets the common options of all transfers of a run.
    func apply(to settings: CurlSettings, _ device: DeviceDirectory, _ resolve: CurlList) throws {
        try settings.setTransfer(authorities: cacert, resolve, maxTime: maxTime, isVerbose: verbose)
        // The path is signed unchanged.
        try settings.set(CURLOPT_PATH_AS_IS, 1)
        if !noCertificate {
            let certificate = certificate ?? device.certificatePath
            guard FileManager.default.fileExists(atPath: certificate) else {
                throw SimulatorError.noCertificate(certificate, for: device)
            }
            try settings.set(CURLOPT_SSLCERT, certificate)
            try settings.set(CURLOPT_SSLKEY, certificateKey ?? device.certificateKeyPath)
        }
    }
}

/// The options for faults in the proof, which cause the different denials.
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
