internal import Administration
internal import ArgumentParser
internal import Cryptography
internal import Encoding
internal import Foundation
internal import Lifecycle
internal import Vocabulary

struct PKIIssue: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "issue",
        abstract: "Issue a client certificate manually.",
        discussion: """
            The issuer is the development GMS CA in --directory, the CA of --ca-certificate and --ca-key, or the CA \
            in `enrolment.authority` of the conf file. Only the public half of the client's key is used.
            With --name, the certificate is a proxy's, for `listeners.clients.names`: issue it by another CA than \
            those of phones.
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

    @Option(help: ArgumentHelp("The DNS name of a proxy, in lower case.", valueName: "NAME"))
    var name: String?

    @Option(
        help: ArgumentHelp("The output file; an existing file is never replaced.", valueName: "FILE"),
        completion: .file())
    var out: String

    @Option(help: "Days until the certificate expires.")
    var days = 30

    func validate() throws {
        guard (1...825).contains(days) else { throw ValidationError("--days must be between 1 and 825") }
        guard name.map(Self.isName) ?? true else {
            throw ValidationError("--name must be a DNS name of at most 64 characters, in lower case")
        }
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
            purpose: name.map { .proxy(name: $0) } ?? .client, commonName: name ?? "device \(id.prefix(16))",
            end: .at(end), serial: nil)
        try OutputFile.create(issuer.issue(template, for: key).pem(), at: out)
        print("wrote \(out)")
    }

    /// Returns whether the text is a name that common names (RFC 5280 appendix A.1) and `listeners.clients.names` take.
    private static func isName(_ text: String) -> Bool {
        let labels = text.split(separator: ".", omittingEmptySubsequences: false)
        return text.utf8.count <= 64
            && labels.allSatisfy { label in
                !label.isEmpty && label.allSatisfy { $0.isASCII && ($0.isLowercase || $0.isNumber || $0 == "-") }
            }
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

struct PKIRevocationList: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "crl",
        abstract: "Write the revocation list of the GMS CA.",
        discussion: """
            The list contains the unexpired certificates from enrolment whose device is revoked or whose key binding \
            has ended. It is signed by the CA in `enrolment.authority` of the conf file, unless an option names \
            another. It is for other verifiers of the certificates; the gateway itself consults the registry and \
            needs no list.

            The file is replaced atomically. Contacts a running gateway through the socket in the section \
            `administration` of the conf file; otherwise opens the registry itself. Exit status: 0 written, 1 \
            failure and nothing changed, 2 usage error.
            """)

    @OptionGroup var file: ConfigurationFile
    @OptionGroup var authority: AuthorityOptions

    @Option(
        help: ArgumentHelp("The output file, PEM; an earlier one is replaced.", valueName: "FILE"),
        completion: .file())
    var out: String

    @Option(
        help: ArgumentHelp(
            "The validity of the list: 1h to 168h, or 1d to 7d. Write the next list before it ends. (default: 24h)",
            valueName: "TIME"),
        transform: { text in
            guard let life = ListLife(text) else { throw ValidationError("'\(text)' is not 1h to 168h, nor 1d to 7d") }
            return life
        })
    var life = ListLife.usual

    func run() throws {
        let library = try LibraryContext()
        // This comes before a number is drawn.
        let issuer = try authority.issuer(or: file, library)
        let (number, certificates) = try file.registryAdministration().revocations()
        let now = Int64(Date().timeIntervalSince1970)
        let list = RevocationList(
            number: number, thisUpdate: now - Self.allowance, nextUpdate: now + life.seconds,
            certificates: certificates)
        try OutputFile.replace(issuer.sign(list), at: out)
        let end = InternetTime.text(of: list.nextUpdate)
        print("wrote \(out): list \(number), \(certificates.count) revoked, good until \(end)")
    }

    /// Tolerance for clocks that are behind, as in certificates. Otherwise a new list would not be valid for them yet.
    private static let allowance: Int64 = 300
}

/// The validity of a revocation list.
struct ListLife: CustomStringConvertible {
    let seconds: Int64

    static let usual = ListLife(seconds: 86_400)
    /// Certificates stay on lists for longer than this after their expiry.
    private static let range: ClosedRange<Int64> = 3_600...604_800

    private init(seconds: Int64) {
        self.seconds = seconds
    }

    /// Parses a text.
    ///
    /// - Parameter text: Hours or days, such as `24h` or `7d`.
    init?(_ text: String) {
        let units: [Character: Int64] = ["h": 3_600, "d": 86_400]
        guard let unit = text.last.flatMap({ units[$0] }), text.dropLast().allSatisfy({ $0.isASCII && $0.isNumber }),
            let number = Int64(text.dropLast()), number <= 1_000, Self.range.contains(number * unit)
        else { return nil }
        seconds = number * unit
    }

    var description: String { "\(seconds / 3_600)h" }
}
