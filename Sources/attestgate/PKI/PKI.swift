internal import ArgumentParser
internal import Cryptography
internal import Foundation
internal import Lifecycle

struct PKI: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pki",
        abstract: "Create development certificates; issue certificates and revocation lists of the GMS CA.",
        subcommands: [PKIInit.self, PKIIssue.self, PKIRevocationList.self])
}

private struct PKIInit: ParsableCommand {
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

/// Certificate files for development and tests. Not for production, because the CA's key is beside the certificates.
private enum DevelopmentPKI {
    private static let day: Int64 = 86_400
    private static let authorityDays: Int64 = 3_650
    /// The longest validity of a server certificate that browsers and phones accept.
    private static let serverDays: Int64 = 397
    private static let clientDays: Int64 = 30

    private static let names = [
        "gms-ca.pem", "gms-ca.key", "server-ca.pem", "server-ca.key", "server.pem", "server.key",
    ]

    /// Returns whether files may have this name. It must not contain a path or equal one of the names above.
    static func isName(_ text: String) -> Bool {
        let isPlain = text.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"): true
            default: false
            }
        }
        return isPlain && (1...64).contains(text.utf8.count) && !names.contains("\(text).pem")
    }

    /// Creates the files.
    ///
    /// - Parameter client: The name of the files for a test client, if any.
    /// - Returns: the paths of the files.
    static func create(in directory: String, hosts: [String], client: String?) throws -> [String] {
        let names = names + (client.map { ["\($0).pem", "\($0).key"] } ?? [])
        let folder = URL(fileURLWithPath: directory, isDirectory: true)
        // A mixture of old and new files would be useless.
        for name in names where FileManager.default.fileExists(atPath: folder.appendingPathComponent(name).path) {
            throw Failure("\(directory)/\(name) already exists; nothing was written")
        }
        do {
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        } catch {
            throw Failure("cannot create \(directory): \(error.localizedDescription)")
        }

        let context = try LibraryContext()
        let clients = try authority("AttestGate development GMS CA", context)
        let servers = try authority("AttestGate development server CA", context)
        let serverKey = try PrivateKey.generateP256(context)
        let server = try servers.issuer.issue(
            CertificateTemplate(
                purpose: .server(names: hosts), commonName: String((hosts.first ?? "").prefix(64)),
                lifetime: serverDays * day),
            for: serverKey.publicKey)

        try OutputFile.create(clients.key.pem(), at: "\(directory)/gms-ca.key", secret: true)
        try OutputFile.create(clients.issuer.certificate.pem(), at: "\(directory)/gms-ca.pem")
        try OutputFile.create(servers.key.pem(), at: "\(directory)/server-ca.key", secret: true)
        try OutputFile.create(servers.issuer.certificate.pem(), at: "\(directory)/server-ca.pem")
        try OutputFile.create(serverKey.pem(), at: "\(directory)/server.key", secret: true)
        try OutputFile.create(server.pem(), at: "\(directory)/server.pem")
        if let client {
            let key = try PrivateKey.generateP256(context)
            let template = CertificateTemplate(purpose: .client, commonName: client, lifetime: clientDays * day)
            try OutputFile.create(key.pem(), at: "\(directory)/\(client).key", secret: true)
            try OutputFile.create(
                clients.issuer.issue(template, for: key.publicKey).pem(), at: "\(directory)/\(client).pem")
        }
        return names.map { "\(directory)/\($0)" }
    }

    /// Returns the files of the authority that issues for phones.
    static func clientAuthority(in directory: String) -> AuthorityFiles {
        AuthorityFiles(certificatePath: "\(directory)/gms-ca.pem", keyPath: "\(directory)/gms-ca.key")
    }

    private static func authority(
        _ name: String, _ context: LibraryContext
    ) throws -> (issuer: CertificateIssuer, key: PrivateKey) {
        let key = try PrivateKey.generateP256(context)
        let issuer = try CertificateIssuer.selfSigned(
            commonName: name, lifetime: authorityDays * day, key: key, context)
        return (issuer, key)
    }
}

/// The options for the GMS CA: in a directory of `pki init`, in any files, or in those of the conf file.
struct AuthorityOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp("The directory in which `pki init` wrote the development GMS CA.", valueName: "DIR"),
        completion: .directory)
    var directory: String?

    @Option(help: ArgumentHelp("The CA's certificate: PEM.", valueName: "FILE"), completion: .file())
    var caCertificate: String?

    @Option(help: ArgumentHelp("The CA's private key: PEM, mode 0600 or 0400.", valueName: "FILE"), completion: .file())
    var caKey: String?

    @Option(
        help: ArgumentHelp(
            "The file with the passphrase of the CA's key: one line, mode 0600 or 0400.", valueName: "FILE"),
        completion: .file())
    var caPassphraseFile: String?

    @Option(help: ArgumentHelp("The environment variable with the passphrase of the CA's key.", valueName: "NAME"))
    var caPassphraseVariable: String?

    func validate() throws {
        let isNamed = caCertificate != nil || caKey != nil || caPassphraseFile != nil || caPassphraseVariable != nil
        guard directory == nil || !isNamed else {
            throw ValidationError("--directory already names a CA: leave out the other CA options")
        }
        guard !isNamed || (caCertificate != nil && caKey != nil) else {
            throw ValidationError("--ca-certificate and --ca-key are required together; a passphrase needs both")
        }
        guard caPassphraseFile == nil || caPassphraseVariable == nil else {
            throw ValidationError("--ca-passphrase-file already names the passphrase")
        }
    }

    /// Whether an option names the CA.
    var isGiven: Bool { directory != nil || caCertificate != nil }

    private func files(or file: ConfigurationFile?) throws -> AuthorityFiles {
        if let directory { return DevelopmentPKI.clientAuthority(in: directory) }
        if let caCertificate, let caKey {
            return AuthorityFiles(
                certificatePath: caCertificate, keyPath: caKey,
                passphrase: caPassphraseFile.map { .file($0) } ?? caPassphraseVariable.map { .variable($0) })
        }
        guard let file else { throw Failure("no CA is named") }
        guard let authority = try file.read().enrolment?.authority else {
            throw Failure(
                "\(file.config): there is no `enrolment.authority`: name a CA with --directory or --ca-certificate")
        }
        return AuthorityFiles(authority)
    }

    /// Returns the issuer.
    ///
    /// - Parameter file: The conf file, which names the CA if the options do not.
    /// - Throws: also if the CA's certificate has expired, because clients would refuse its signatures.
    func issuer(or file: ConfigurationFile?, _ library: LibraryContext) throws -> CertificateIssuer {
        let files = try files(or: file)
        let issuer: CertificateIssuer
        do {
            issuer = try files.read().issuer(library)
        } catch let error as CryptographyError {
            throw Failure("\(files.certificatePath), \(files.keyPath): \(error)")
        }
        guard let end = issuer.certificate.notAfter, end > Int64(Date().timeIntervalSince1970) else {
            throw Failure("\(files.certificatePath): the CA's certificate has expired")
        }
        return issuer
    }
}
