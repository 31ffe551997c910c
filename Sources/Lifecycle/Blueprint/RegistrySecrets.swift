public import Cryptography
internal import Gateway

/// For those who administer a registry's file while no gateway has it.
public enum RegistrySecrets {
    /// The names by which the registry knows people.
    ///
    /// - Parameter path: of the secret; one that is not there is refused, for nobody could have been admitted by it.
    public static func subjects(
        path: String, _ library: LibraryContext
    ) throws(StartupError) -> SubjectPseudonyms {
        guard let secrets = try GatewaySecrets.read(path) else {
            throw StartupError("registry: secret: \(path): there is no such file")
        }
        do throws(CryptographyError) { return try secrets.subjects(library) } catch {
            throw StartupError("registry: secret: \(path): \(error)")
        }
    }
}

extension GatewaySecrets {
    func subjects(_ library: LibraryContext) throws(CryptographyError) -> SubjectPseudonyms {
        let key = try subjectKey(library)
        return SubjectPseudonyms(try AuthenticationKey(key.span, library))
    }
}
