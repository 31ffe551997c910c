internal import ArgumentParser
internal import Cryptography
internal import Foundation
internal import Lifecycle

/// The GMS CA, as commands get at it: in a directory of `pki init`, anywhere, or where the conf file says.
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

    /// Whether any is named here.
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

    /// - Parameter file: the conf file, which says where the CA is if the options do not.
    /// - Throws: also if the CA's certificate has expired: nothing that it signs would be accepted.
    func issuer(or file: ConfigurationFile?, _ library: LibraryContext) throws -> CertificateIssuer {
        let files = try files(or: file)
        let issuer: CertificateIssuer
        do {
            issuer = try files.read().issuer(library)
        } catch let error as CryptographyError {
            throw Failure("\(files.certificatePath), \(files.keyPath): \(error)")
        } catch let error as StartupError {
            throw Failure("\(error)")
        }
        guard let end = issuer.certificate.notAfter, end > Int64(Date().timeIntervalSince1970) else {
            throw Failure("\(files.certificatePath): the CA's certificate has expired")
        }
        return issuer
    }
}
