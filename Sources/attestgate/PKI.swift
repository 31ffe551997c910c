internal import ArgumentParser

struct PKI: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pki",
        abstract: "Create development certificates; issue certificates and revocation lists of the GMS CA.",
        subcommands: [PKIInit.self, PKIIssue.self, PKIRevocationList.self])
}

struct PKIInit: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "init",
        abstract: "Create a development GMS CA and a server certificate.",
        discussion: """
            Writes these files into the directory, and never replaces one:
              gms-ca.pem, gms-ca.key        issues client certificates (attestgate pki issue)
              server-ca.pem, server-ca.key  issues the server certificate; clients trust server-ca.pem
              server.pem, server.key        the gateway's own certificate and key
            With --client NAME, also NAME.pem and NAME.key for tests with curl; phones create their own keys.
            """)

    @Option(help: ArgumentHelp("The output directory.", valueName: "DIR"), completion: .directory)
    var directory: String

    @Option(
        name: .long,
        help: ArgumentHelp(
            "A name or address of the server certificate; can be repeated.", valueName: "NAME"))
    var host: [String]

    @Option(help: ArgumentHelp("Also create a client key and certificate with this name.", valueName: "NAME"))
    var client: String?

    func run() throws {
        for path in try DevelopmentPKI.create(in: directory, hosts: host, client: client) { print("wrote \(path)") }
    }

    func validate() throws {
        guard !host.isEmpty else { throw ValidationError("--host is required") }
        guard client.map(DevelopmentPKI.isName) ?? true else {
            throw ValidationError("--client must be 1 to 64 of a-z, 0-9 and -, and none of the names above")
        }
    }
}
