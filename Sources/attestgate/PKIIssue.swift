internal import ArgumentParser
internal import Cryptography
internal import Foundation
internal import Lifecycle

struct PKIIssue: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "issue",
        abstract: "Issue a client certificate manually.",
        discussion: """
            The issuer is the development GMS CA in --directory, the CA of --ca-certificate and --ca-key, or the CA \
            in `enrolment.authority` of the conf file. Only the public half of the client's key is used.
            To create a key: openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out phone.key

            Revocation lists do not contain certificates issued by this command, because the registry does not \
            record them. You can revoke the device as usual.
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
        help: ArgumentHelp("The output file; an existing file is never replaced.", valueName: "FILE"),
        completion: .file())
    var out: String

    @Option(help: "Days until the certificate expires.")
    var days = 30

    func validate() throws {
        guard (1...825).contains(days) else { throw ValidationError("--days must be between 1 and 825") }
        guard authority.isGiven != (config != nil) else {
            throw ValidationError("name the CA with --directory, with --ca-certificate and --ca-key, or with --config")
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
        // The subject names the key and no person.
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
            throw Failure("\(path) contains no PEM key, private or public")
        }
    }
}
