internal import ArgumentParser

/// How the request travels: as curl's options of the same names.
struct TransferOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp("PEM file of the authorities that the server may chain to.", valueName: "FILE"),
        completion: .file())
    var cacert: String?

    @Option(help: ArgumentHelp("HOST:PORT:ADDRESS: connect there for that host and port.", valueName: "ENTRY"))
    var resolve: [String] = []

    @Flag(name: .customLong("http2"), help: "Speak HTTP/2, and fail where the server does not (HTTP/1.1 otherwise).")
    var http2 = false

    @Option(help: ArgumentHelp("The client certificate (DIR/certificate.pem).", valueName: "PEM"), completion: .file())
    var certificate: String?

    @Option(help: ArgumentHelp("Its private key (DIR/certificate-key.pem).", valueName: "PEM"), completion: .file())
    var certificateKey: String?

    @Flag(help: "Present no client certificate.")
    var noCertificate = false

    @Option(help: ArgumentHelp("Most seconds for each transfer.", valueName: "SECONDS"))
    var maxTime = 300

    @Flag(name: [.customShort("i"), .long], help: "Put the head of the response before its content.")
    var include = false

    @Flag(name: .shortAndLong, help: "Tell on standard error what happens, libcurl's part included; proofs are shown.")
    var verbose = false

    @Flag(name: .shortAndLong, help: "Exit with 22 if the status is 400 or above.")
    var fail = false

    func validate() throws {
        guard (1...86_400).contains(maxTime) else { throw ValidationError("--max-time is between 1 and 86400 seconds") }
    }
}
