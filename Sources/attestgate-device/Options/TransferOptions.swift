internal import ArgumentParser

/// How the request travels: as curl's options of the same names.
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
}
