internal import ArgumentParser
internal import CCurl

/// How an enrolment's requests travel: as curl's options of the same names.
struct EnrolmentTransferOptions: ParsableArguments {
    @Option(
        name: [.long, .customLong("cacert")],
        help: ArgumentHelp("PEM file with the authorities of the service's certificate.", valueName: "FILE"),
        completion: .file())
    var ca: String?

    @Option(help: ArgumentHelp("HOST:PORT:ADDRESS: connect there for that host and port.", valueName: "ENTRY"))
    var resolve: [String] = []

    @Flag(
        name: .customLong("http2"), help: "Use HTTP/2, and fail if the server does not support it (default: HTTP/1.1).")
    var http2 = false

    @Option(help: ArgumentHelp("The maximum time of a transfer, in seconds.", valueName: "SECONDS"))
    var maxTime = 30

    @Flag(name: .shortAndLong, help: "Write libcurl's actions to standard error, including tokens.")
    var verbose = false

    func validate() throws {
        guard (1...86_400).contains(maxTime) else { throw ValidationError("--max-time must be 1 to 86400 seconds") }
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
