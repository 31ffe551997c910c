/// The GMS CA: what issues the certificates of phones.
public struct EnrolmentAuthorityConfiguration: Equatable, Sendable {
    /// A PEM file with the one certificate.
    public let certificatePath: String
    /// A PEM file that nobody but its owner can read.
    public let keyPath: String
    /// Nil if the key is not encrypted.
    public let passphrase: Passphrase?

    /// Where the passphrase of the key is; never the passphrase.
    public enum Passphrase: Equatable, Sendable {
        /// A file that nobody but its owner can read, with the passphrase as its one line.
        case file(String)
        /// An environment variable.
        case variable(String)
    }
}

extension EnrolmentAuthorityConfiguration {
    enum Keys {
        static let certificate = Key(
            "certificate", .file("a readable PEM file"), whenMissing: .refused, "The CA's certificate.")
        static let key = Key(
            "key", .secretFile("a readable PEM file"), whenMissing: .refused,
            "The private key of the certificate; encrypted if one of the next two settings is present.")
        static let passphraseFile = Key(
            "passphrase_file", .secretFile("a readable file"), whenMissing: .allowed,
            "The file with the passphrase of the key.")
        static let passphraseVariable = Key(
            "passphrase_variable", .text(VariableName.expected, matching: VariableName.pattern, VariableName.parse),
            whenMissing: .allowed,
            "The environment variable with the passphrase of the key.")

        static let section = Section(
            path: "enrolment.authority",
            settings: [certificate.setting, key.setting, passphraseFile.setting, passphraseVariable.setting])
    }

    init?(_ item: Item, _ reading: Reading) {
        guard let reader = SectionReader(item, Keys.section, reading) else { return nil }
        let certificatePath = reader.read(Keys.certificate)
        let keyPath = reader.read(Keys.key)
        let passphraseFile = reader.read(Keys.passphraseFile)
        let passphraseVariable = reader.read(Keys.passphraseVariable)
        if reader.has(Keys.passphraseFile), reader.has(Keys.passphraseVariable) {
            reading.refuse(
                reader.place(of: Keys.passphraseVariable), "`passphrase_file` already names the passphrase",
                expected: "one of the two")
            return nil
        }
        guard let certificatePath, let keyPath, passphraseFile != nil || !reader.has(Keys.passphraseFile),
            passphraseVariable != nil || !reader.has(Keys.passphraseVariable)
        else { return nil }
        self.certificatePath = certificatePath
        self.keyPath = keyPath
        passphrase = passphraseFile.map { .file($0) } ?? passphraseVariable.map { .variable($0) }
    }
}
