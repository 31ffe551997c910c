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
            Names the certificates, issued by enrolment and not yet expired, whose device is revoked or whose key's binding has \
            ended; signed by the CA that the conf file names in `enrolment.authority`, unless an option names another. For those \
            who verify certificates without asking the registry; the gateway asks it, and refuses these devices without a list.

            The file is replaced in one step. While a gateway runs, it is asked through the socket that the conf file names in \
            `administration`; otherwise the registry's file itself is used. Exit status: 0 written, 1 impossible and nothing \
            has changed, 2 wrong usage.
            """)

    @OptionGroup var file: ConfigurationFile
    @OptionGroup var authority: AuthorityOptions

    @Option(
        help: ArgumentHelp("Where to write the list, as PEM; replaces an earlier one.", valueName: "FILE"),
        completion: .file())
    var out: String

    @Option(
        help: ArgumentHelp(
            "How long the list is good for: 1h to 168h, or in days. Write the next one well before.", valueName: "TIME"),
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
