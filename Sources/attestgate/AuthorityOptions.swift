internal import ArgumentParser
internal import Cryptography
internal import Foundation
internal import Lifecycle

/// The GMS CA, as commands get at it: in a directory of `pki init`, or anywhere.
struct AuthorityOptions: ParsableArguments {
    @Option(help: ArgumentHelp("Where `pki init` has written the development GMS CA.", valueName: "DIR"))
    var directory: String?

    @Option(help: ArgumentHelp("The CA's certificate: PEM.", valueName: "FILE"))
    var caCertificate: String?

    @Option(help: ArgumentHelp("The CA's private key: PEM, mode 0600 or 0400.", valueName: "FILE"))
    var caKey: String?

    @Option(
        help: ArgumentHelp(
            "The file with the passphrase of the CA's key: one line, mode 0600 or 0400.", valueName: "FILE"))
    var caPassphraseFile: String?

    @Option(help: ArgumentHelp("The environment variable with the passphrase of the CA's key.", valueName: "NAME"))
    var caPassphraseVariable: String?

    func validate() throws {
        let isNamed = caCertificate != nil || caKey != nil || caPassphraseFile != nil || caPassphraseVariable != nil
        guard directory == nil || !isNamed else {
            throw ValidationError("--directory names a CA already: the other options of the CA say another")
        }
        guard directory != nil || (caCertificate != nil && caKey != nil) else {
            throw ValidationError("the CA is named by --directory, or by --ca-certificate and --ca-key")
        }
        guard caPassphraseFile == nil || caPassphraseVariable == nil else {
            throw ValidationError("--ca-passphrase-file says the passphrase already")
        }
    }

    private func files() throws -> AuthorityFiles {
        if let directory { return DevelopmentPKI.clientAuthority(in: directory) }
        guard let caCertificate, let caKey else { throw Failure("no CA is named") }
        return AuthorityFiles(
            certificatePath: caCertificate, keyPath: caKey,
            passphrase: caPassphraseFile.map { .file($0) } ?? caPassphraseVariable.map { .variable($0) })
    }

    /// - Throws: also if the CA's certificate has expired: nothing that it signs would be accepted.
    func issuer(_ library: LibraryContext) throws -> CertificateIssuer {
        let files = try files()
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
