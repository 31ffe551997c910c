internal import ArgumentParser

struct PKI: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pki",
        abstract: "Make certificates for development: a GMS CA, a server certificate, client certificates.",
        subcommands: [PKIInit.self, PKIIssue.self])
}

struct PKIInit: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "init",
        abstract: "Make a development GMS CA and a server certificate.",
        discussion: """
            Writes into the directory, and never over an existing file:
              gms-ca.pem, gms-ca.key        issues client certificates (attestgate pki issue)
              server-ca.pem, server-ca.key  issued the server certificate; clients trust server-ca.pem
              server.pem, server.key        the gateway's own certificate and key
            """)

    @Option(help: ArgumentHelp("Where to write.", valueName: "DIR"))
    var directory: String

    @Option(
        name: .long,
        help: ArgumentHelp(
            "A name or address the server certificate is for; may be given several times.", valueName: "NAME"))
    var host: [String]

    func run() throws {
        for path in try DevelopmentPKI.create(in: directory, hosts: host) { print("wrote \(path)") }
    }

    func validate() throws {
        guard !host.isEmpty else { throw ValidationError("--host is required") }
    }
}

struct PKIIssue: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "issue",
        abstract: "Issue a client certificate from the development GMS CA.",
        discussion: """
            The key stays where it is: a private key in the file serves only to tell its public half.
            A key is made by: openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out phone.key
            """)

    @Option(help: ArgumentHelp("Where `pki init` has written.", valueName: "DIR"))
    var directory: String

    @Option(help: ArgumentHelp("The client's P-256 key: PEM, public or private.", valueName: "PEM"))
    var certificateKey: String

    @Option(help: ArgumentHelp("Where to write the certificate; never over an existing file.", valueName: "FILE"))
    var out: String

    @Option(help: "Days until the certificate expires.")
    var days = 30

    func run() throws {
        try DevelopmentPKI.issue(from: directory, keyFile: certificateKey, to: out, days: days)
        print("wrote \(out)")
    }

    func validate() throws {
        guard (1...825).contains(days) else { throw ValidationError("--days is between 1 and 825") }
    }
}
