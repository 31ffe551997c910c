public import Cryptography
public import GatewayConfiguration
internal import Glibc

/// The files of the certification authority that issues client certificates.
public struct AuthorityFiles: Equatable, Sendable {
    public let certificatePath: String
    public let keyPath: String
    /// Nil if the key is not encrypted.
    public let passphrase: PassphrasePlace?

    public enum PassphrasePlace: Equatable, Sendable {
        /// A file with one line.
        case file(String)
        /// An environment variable. It is not removed: a reload reads it again, this program starts no other, and
        /// /proc shows the initial environment anyway.
        case variable(String)
    }

    public init(certificatePath: String, keyPath: String, passphrase: PassphrasePlace? = nil) {
        self.certificatePath = certificatePath
        self.keyPath = keyPath
        self.passphrase = passphrase
    }

    public init(_ configuration: EnrolmentAuthorityConfiguration) {
        let passphrase: PassphrasePlace? =
            switch configuration.passphrase {
            case nil: nil
            case .file(let path): .file(path)
            case .variable(let name): .variable(name)
            }
        self.init(
            certificatePath: configuration.certificatePath, keyPath: configuration.keyPath, passphrase: passphrase)
    }

    /// Reads the files. Only the owner may have access to the key and the passphrase file. `AuthoritySource.issuer`
    /// checks the contents.
    public func read() throws(StartupError) -> AuthoritySource {
        let passphrase = try readPassphrase()
        do throws(FileContents.Failure) {
            return AuthoritySource(
                certificate: try FileContents.read(certificatePath), key: try FileContents.readPrivate(keyPath),
                passphrase: passphrase)
        } catch {
            throw StartupError(error.description, of: .file(error.path))
        }
    }

    private func readPassphrase() throws(StartupError) -> Passphrase? {
        switch passphrase {
        case nil: return nil
        case .file(let path):
            let text: [UInt8]
            do throws(FileContents.Failure) { text = try FileContents.readPrivate(path) } catch {
                throw StartupError(error.description, of: .file(error.path))
            }
            return try make(text, of: path, .file(path))
        case .variable(let name):
            guard let value = getenv(name) else { throw StartupError("the environment variable \(name) is not set") }
            // As bytes: it need not be UTF-8.
            let bytes = UnsafeBufferPointer(start: value, count: strlen(value)).map { UInt8(bitPattern: $0) }
            return try make(bytes, of: "the environment variable \(name)")
        }
    }

    private func make(
        _ text: [UInt8], of place: String, _ subject: Subject? = nil
    ) throws(StartupError) -> Passphrase {
        do throws(PassphraseFault) { return try Passphrase(text) } catch {
            throw StartupError("\(place): \(error)", of: subject)
        }
    }
}
