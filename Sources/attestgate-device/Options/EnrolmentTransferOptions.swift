internal import ArgumentParser
internal import CCurl

/// How an enrolment's requests travel: as curl's options of the same names.
struct EnrolmentTransferOptions: ParsableArguments {
    @Option(
        name: [.long, .customLong("cacert")],
        help: ArgumentHelp("PEM file of the authorities that the service may chain to.", valueName: "FILE"),
        completion: .file())
    var ca: String?

    @Option(help: ArgumentHelp("HOST:PORT:ADDRESS: connect there for that host and port.", valueName: "ENTRY"))
    var resolve: [String] = []

    @Flag(name: .customLong("http2"), help: "Speak HTTP/2, and fail where the server does not (HTTP/1.1 otherwise).")
    var http2 = false

    @Option(help: ArgumentHelp("Most seconds for each transfer.", valueName: "SECONDS"))
    var maxTime = 30

    @Flag(name: .shortAndLong, help: "Tell on standard error what libcurl does; tokens are shown.")
    var verbose = false

    func validate() throws {
        guard (1...86_400).contains(maxTime) else { throw ValidationError("--max-time is between 1 and 86400 seconds") }
    }

    /// Sets what every transfer of a run has in common.
    func apply(to settings: CurlSettings, _ resolve: CurlList) throws {
        try settings.set(CURLOPT_PROTOCOLS_STR, "https")
        try settings.set(CURLOPT_NOSIGNAL, 1)
        try settings.set(CURLOPT_TIMEOUT, maxTime)
        try settings.set(CURLOPT_VERBOSE, verbose ? 1 : 0)
        try settings.set(CURLOPT_RESOLVE, resolve)
        if let ca { try settings.set(CURLOPT_CAINFO, ca) }
    }
}
