internal import Challenges
public import Cryptography
internal import Glibc
internal import Vocabulary

/// The secrets that all gateways of one store share: from the file that `registry.secret` names.
///
/// Lines of a word and hexadecimal digits; `#` begins a comment:
///
///     challenge 2 <64 digits>      signs challenges, and verifies
///     challenge 1 <64 digits>      optional: the generation before, verifies only
///     pseudonyms <64 digits>       derives what services know devices by; never changes
struct GatewaySecrets: Sendable {
    let current: ChallengeSecret
    let previous: ChallengeSecret?
    /// Keys are derived from it, one for each purpose.
    private let pseudonyms: [UInt8]

    private static let length = 32

    init(parsing text: String) throws(Malformed) {
        var challenges: [ChallengeSecret] = []
        var pseudonyms: [UInt8]?
        for (number, line) in text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline).enumerated() {
            let words = line.split(whereSeparator: { $0 == " " || $0 == "\t" || $0 == "\r" })
            guard let name = words.first, !name.hasPrefix("#") else { continue }
            switch (name, words.count) {
            case ("challenge", 3):
                guard let generation = UInt8(words[1]), let bytes = Self.secret(words[2]),
                    let secret = ChallengeSecret(generation: generation, bytes: bytes)
                else { throw Malformed(line: number + 1) }
                challenges.append(secret)
            case ("pseudonyms", 2):
                guard pseudonyms == nil, let bytes = Self.secret(words[1]) else { throw Malformed(line: number + 1) }
                pseudonyms = bytes
            default: throw Malformed(line: number + 1)
            }
        }
        guard let pseudonyms, let current = challenges.first, challenges.count <= 2,
            challenges.count == 1 || challenges[1].generation != current.generation
        else { throw Malformed(line: nil) }
        self.current = current
        previous = challenges.count == 2 ? challenges[1] : nil
        self.pseudonyms = pseudonyms
    }

    private static func secret(_ text: Substring) -> [UInt8]? {
        guard let bytes = Hexadecimal.decode(text), bytes.count == length else { return nil }
        return bytes
    }

    /// Says where, never what: the file holds secrets.
    struct Malformed: Error, Equatable {
        /// From 1; nil if a line is missing, or one too many.
        let line: Int?
    }

    /// The text of a new file.
    static func fresh(_ library: LibraryContext) throws(CryptographyError) -> String {
        """
        # Secrets of AttestGate: whoever knows them can make challenges, and link devices across services.
        # All gateways that share a registry have the same file. To change the challenge secret, put a new line with the
        # next number above the old one; remove the old one when its challenges have expired.
        challenge 1 \(Hexadecimal.encode(try library.randomBytes(length)))
        pseudonyms \(Hexadecimal.encode(try library.randomBytes(length)))

        """
    }

    /// The key of the pseudonyms that one upstream knows devices by: services that compare notes cannot link phones.
    func pseudonymKey(
        ofUpstream name: String, _ library: LibraryContext
    ) throws(CryptographyError) -> AuthenticationKey {
        try derivedKey("attestgate attest-device \(name)", library)
    }

    /// The key of the short ids that logs know devices by: they lead neither to key ids nor to what services know.
    func logKey(_ library: LibraryContext) throws(CryptographyError) -> AuthenticationKey {
        try derivedKey("attestgate log-device", library)
    }

    /// The key of the pseudonyms by which the registry knows the people that devices were admitted for: 32 bytes.
    func subjectKey(_ library: LibraryContext) throws(CryptographyError) -> [UInt8] {
        try derivedBytes("attestgate subject", library)
    }

    private func derivedKey(
        _ purpose: String, _ library: LibraryContext
    ) throws(CryptographyError) -> AuthenticationKey {
        let key = try derivedBytes(purpose, library)
        return try AuthenticationKey(key.span, library)
    }

    private func derivedBytes(_ purpose: String, _ library: LibraryContext) throws(CryptographyError) -> [UInt8] {
        let info = Array(purpose.utf8)
        return try KeyDerivation.hkdfSHA256(secret: pseudonyms.span, info: info.span, count: 32, library)
    }
}

extension GatewaySecrets {
    /// Reads the file, which nobody but its owner may read; makes it where there is none.
    ///
    /// - Parameter made: called after a file was made.
    static func load(_ path: String, made: () -> Void = {}) throws(StartupError) -> GatewaySecrets {
        if let secrets = try read(path) { return secrets }
        try create(path)
        guard let secrets = try read(path) else { throw failure(path, "cannot be read back") }
        made()
        return secrets
    }

    /// - Returns: nil if there is no file.
    static func read(_ path: String) throws(StartupError) -> GatewaySecrets? {
        var status = stat()
        if stat(path, &status) != 0 {
            guard errno == ENOENT else { throw failure(path, "cannot be read: \(String(cString: strerror(errno)))") }
            return nil
        }
        guard status.st_mode & S_IFMT == S_IFREG else { throw failure(path, "is not a file") }
        guard status.st_mode & 0o077 == 0 else {
            throw failure(path, "may be read or written by others: its mode must be 0600")
        }
        // Whoever owns it can read it.
        guard status.st_uid == geteuid() || status.st_uid == 0 else {
            throw failure(path, "belongs to another user (uid \(status.st_uid))")
        }
        let bytes: [UInt8]
        do throws(FileContents.Failure) { bytes = try FileContents.read(path) } catch {
            throw failure(path, error.description)
        }
        do throws(Malformed) { return try GatewaySecrets(parsing: String(decoding: bytes, as: UTF8.self)) } catch {
            throw failure(path, error.line.map { "line \($0) is malformed" } ?? "a line is missing, or one too many")
        }
    }

    /// Written beside and linked into place, so that two processes that start at once agree on one file, complete.
    private static func create(_ path: String) throws(StartupError) {
        let text: String
        do throws(CryptographyError) { text = try fresh(try LibraryContext()) } catch {
            throw failure(path, error.description)
        }
        let beside = "\(path).\(getpid())"
        let descriptor = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw failure(path, "cannot be made: \(String(cString: strerror(errno)))") }
        defer { unlink(beside) }
        let isWritten = write(descriptor, text, text.utf8.count) == text.utf8.count && fsync(descriptor) == 0
        close(descriptor)
        guard isWritten, link(beside, path) == 0 || errno == EEXIST else {
            throw failure(path, "cannot be made: \(String(cString: strerror(errno)))")
        }
    }

    private static func failure(_ path: String, _ reason: String) -> StartupError {
        StartupError("registry: secret: \(path): \(reason)")
    }
}

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
