internal import ArgumentParser

struct PKI: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pki",
        abstract: "Make certificates for development; issue certificates and revocation lists of the GMS CA.",
        subcommands: [PKIInit.self, PKIIssue.self, PKIRevocationList.self])
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
            With --client NAME also NAME.pem and NAME.key, to try it with curl; phones make their own keys.
            """)

    @Option(help: ArgumentHelp("Where to write.", valueName: "DIR"), completion: .directory)
    var directory: String

    @Option(
        name: .long,
        help: ArgumentHelp(
            "A name or address the server certificate is for; may be given several times.", valueName: "NAME"))
    var host: [String]

    @Option(help: ArgumentHelp("Make a client's key and certificate of this name, too.", valueName: "NAME"))
    var client: String?

    func run() throws {
        for path in try DevelopmentPKI.create(in: directory, hosts: host, client: client) { print("wrote \(path)") }
    }

    func validate() throws {
        guard !host.isEmpty else { throw ValidationError("--host is required") }
        guard client.map(DevelopmentPKI.isName) ?? true else {
            throw ValidationError("--client is up to 64 of a-z, 0-9 and -, and none of the names above")
        }
    }
}
