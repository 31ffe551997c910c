internal import Administration
internal import ArgumentParser
internal import Cryptography
internal import Foundation
internal import Vocabulary

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
        // Before a number is drawn.
        let issuer = try authority.issuer(or: file, library)
        let (number, certificates): (Int64, [RevokedCertificate])
        do {
            (number, certificates) = try file.registryAdministration().revocations()
        } catch let error as DeviceAdministrationError {
            throw Failure("\(error)")
        }
        let now = Int64(Date().timeIntervalSince1970)
        let list = RevocationList(
            number: number, thisUpdate: now - Self.allowance, nextUpdate: now + life.seconds,
            certificates: certificates)
        let pem: [UInt8]
        do throws(CryptographyError) { pem = try issuer.sign(list) } catch { throw Failure("\(error)") }
        try OutputFile.replace(pem, at: out)
        let end = Date(timeIntervalSince1970: TimeInterval(list.nextUpdate)).formatted(.iso8601)
        print("wrote \(out): list \(number), \(certificates.count) revoked, good until \(end)")
    }

    /// For clocks that are behind: to them a list of now would not be good yet. As long as with certificates.
    private static let allowance: Int64 = 300
}

/// How long a revocation list is good for.
struct ListLife: CustomStringConvertible {
    let seconds: Int64

    static let usual = ListLife(seconds: 86_400)
    /// Certificates stay on lists for longer than this after they have expired.
    private static let range: ClosedRange<Int64> = 3_600...604_800

    private init(seconds: Int64) {
        self.seconds = seconds
    }

    /// - Parameter text: hours or days: `24h`, `7d`.
    init?(_ text: String) {
        let units: [Character: Int64] = ["h": 3_600, "d": 86_400]
        guard let unit = text.last.flatMap({ units[$0] }), text.dropLast().allSatisfy({ $0.isASCII && $0.isNumber }),
            let number = Int64(text.dropLast()), number <= 1_000, Self.range.contains(number * unit)
        else { return nil }
        seconds = number * unit
    }

    var description: String { "\(seconds / 3_600)h" }
}
