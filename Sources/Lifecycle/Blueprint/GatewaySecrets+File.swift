public import Cryptography
internal import Gateway
internal import Glibc
public import Registry

extension GatewaySecrets {
    /// Reads the file, which only its owner may read. Creates it if there is none.
    static func load(_ path: String) throws(StartupError) -> GatewaySecrets {
        if let secrets = try read(path) { return secrets }
        try create(path)
        guard let secrets = try read(path) else { throw failure(path, "cannot be read back") }
        return secrets
    }

    /// Reads the file for a process that has the secrets already. A missing file must be restored, not created again:
    /// otherwise pseudonyms would change.
    static func reload(_ path: String, of running: GatewaySecrets) throws(StartupError) -> GatewaySecrets {
        guard let secrets = try read(path) else { throw failure(path, "the file is missing: restore it") }
        guard try secrets.check(at: path) == running.check(at: path) else {
            throw failure(path, "the line `pseudonyms` has changed: restore the old line")
        }
        return secrets
    }

    /// Returns the fingerprint that the registry keeps of the secret.
    func check(at path: String) throws(StartupError) -> Fingerprint {
        do throws(CryptographyError) {
            guard let check = Fingerprint(try check(LibraryContext())) else { preconditionFailure("32 bytes") }
            return check
        } catch {
            throw Self.failure(path, error.description)
        }
    }

    /// Reads the file.
    ///
    /// - Returns: Nil if there is no file.
    static func read(_ path: String) throws(StartupError) -> GatewaySecrets? {
        let bytes: [UInt8]
        do throws(FileContents.Failure) { bytes = try FileContents.readPrivate(path) } catch {
            guard !error.isMissing else { return nil }
            throw failure(path, error.reason)
        }
        do throws(Malformed) { return try GatewaySecrets(parsing: String(decoding: bytes, as: UTF8.self)) } catch {
            throw failure(
                path,
                error.line.map { "line \($0) is malformed" }
                    ?? "it must have one or two lines `challenge`, with different numbers, and one line `pseudonyms`")
        }
    }

    /// Writes a temporary file and links it into place, so that two processes that start together agree on one
    /// complete file.
    private static func create(_ path: String) throws(StartupError) {
        let text: String
        do throws(CryptographyError) { text = try fresh(try LibraryContext()) } catch {
            throw failure(path, error.description)
        }
        let beside = "\(path).\(getpid())"
        let descriptor = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw failure(path, "cannot be created: \(String(cString: strerror(errno)))") }
        defer { unlink(beside) }
        let isWritten = write(descriptor, text, text.utf8.count) == text.utf8.count && fsync(descriptor) == 0
        close(descriptor)
        guard isWritten, link(beside, path) == 0 || errno == EEXIST, syncDirectory(of: path) else {
            throw failure(path, "cannot be created: \(String(cString: strerror(errno)))")
        }
    }

    /// Syncs the directory: the registry will depend on the secret, so the file's name must survive a power cut.
    private static func syncDirectory(of path: String) -> Bool {
        let end = path.lastIndex(of: "/")
        let directory = end.map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
        let descriptor = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        return fsync(descriptor) == 0
    }

    private static func failure(_ path: String, _ reason: String) -> StartupError {
        StartupError("registry: secret: \(path): \(reason)", of: .file(path))
    }
}

/// Names from the registry's secret, for commands that work on a registry's file without a gateway.
public enum RegistrySecrets {
    /// Returns the pseudonyms of subjects, and the fingerprint that a registry keeps of the secret.
    ///
    /// - Parameter path: The path of the secret. A missing file is an error, because nobody can have been admitted
    ///   under it.
    public static func subjects(
        path: String, _ library: LibraryContext
    ) throws(StartupError) -> (names: SubjectPseudonyms, check: Fingerprint?) {
        try read(path) { secrets throws(CryptographyError) in
            (try secrets.subjects(library), Fingerprint(try secrets.check(library)))
        }
    }

    /// Creates the secret for a new registry: later a missing one counts as lost.
    public static func make(path: String) throws(StartupError) { _ = try GatewaySecrets.load(path) }

    /// Returns the names of devices in logs.
    public static func logNames(path: String, _ library: LibraryContext) throws(StartupError) -> DeviceLogNames {
        try read(path) { secrets throws(CryptographyError) in try secrets.logNames(library) }
    }

    private static func read<Names>(
        _ path: String, _ names: (GatewaySecrets) throws(CryptographyError) -> Names
    ) throws(StartupError) -> Names {
        guard let secrets = try GatewaySecrets.read(path) else {
            throw StartupError("registry: secret: \(path): there is no such file")
        }
        do throws(CryptographyError) { return try names(secrets) } catch {
            throw StartupError("registry: secret: \(path): \(error)")
        }
    }
}
