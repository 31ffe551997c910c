internal import ArgumentParser
internal import Cryptography
internal import Foundation
internal import Lifecycle

struct PKIIssue: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "issue",
        abstract: "Issue a client certificate by hand.",
        discussion: """
            From the development GMS CA in --directory, from the one that --ca-certificate and --ca-key name, or from the one \
            that the conf file names in `enrolment.authority`. The client's key stays where it is: a private key in the file \
            serves only to tell its public half.
            A key is made by: openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out phone.key

            No revocation list names a certificate issued so: the registry knows those of enrolment alone. Its device is \
            revoked like any.
            """)

    @OptionGroup var authority: AuthorityOptions

    @Option(help: ArgumentHelp("The conf file.", valueName: "FILE"), completion: .file())
    var config: String?

    private var file: ConfigurationFile? {
        guard let config else { return nil }
        var file = ConfigurationFile()
        file.config = config
        return file
    }

    @Option(
        help: ArgumentHelp("The client's P-256 key: PEM, public or private.", valueName: "PEM"), completion: .file())
    var certificateKey: String

    @Option(
        help: ArgumentHelp("Where to write the certificate; never over an existing file.", valueName: "FILE"),
        completion: .file())
    var out: String

    @Option(help: "Days until the certificate expires.")
    var days = 30

    func validate() throws {
        guard (1...825).contains(days) else { throw ValidationError("--days is between 1 and 825") }
        guard authority.isGiven != (config != nil) else {
            throw ValidationError("the CA is named by --directory, by --ca-certificate and --ca-key, or by --config")
        }
    }

    func run() throws {
        let library = try LibraryContext()
        let issuer = try authority.issuer(or: file, library)
        let key = try Self.publicKey(in: certificateKey, library)
        guard key.isP256 else { throw Failure("\(certificateKey): the key is not on P-256") }
        let id = try key.keyID(library).map(\.description) ?? ""
        let end = min(
            Int64(Date().timeIntervalSince1970) + Int64(days) * 86_400, issuer.certificate.notAfter ?? 0)
        // The subject names the key and nobody's person.
        let template = CertificateTemplate(
            purpose: .client, commonName: "device \(id.prefix(16))", end: .at(end), serial: nil)
        try OutputFile.create(issuer.issue(template, for: key).pem(), at: out)
        print("wrote \(out)")
    }

    private static func publicKey(in path: String, _ library: LibraryContext) throws -> PublicKey {
        guard let data = FileManager.default.contents(atPath: path) else { throw Failure("cannot read \(path)") }
        let pem = Array(data)
        if let key = try? PrivateKey(pem: pem, library) { return key.publicKey }
        do {
            return try PublicKey(pem: pem, library)
        } catch {
            throw Failure("\(path) holds no PEM key, private or public")
        }
    }
}
