internal import Cryptography
internal import GatewayConfiguration
internal import Glibc

/// Reads files that a conf file names.
enum FileContents {
    struct Failure: Error, CustomStringConvertible {
        let path: String
        /// The text after the path.
        let reason: String
        /// Whether there is no such file.
        var isMissing = false

        var description: String { "\(path): \(reason)" }

        static func last(_ path: String) -> Failure {
            let code = errno
            return Failure(
                path: path, reason: "cannot be read: \(OpenFailure.text(of: code, path))", isMissing: code == ENOENT)
        }
    }

    /// More than any certificate bundle.
    private static let limit = 16 * 1024 * 1024
    /// More than any secret.
    private static let privateLimit = 64 * 1024

    static func read(_ path: String) throws(Failure) -> [UInt8] {
        try read(path, atMost: limit) { _ in nil }
    }

    /// Reads a file with a secret. Only its owner may have access to the file, and the owner must be this user or
    /// root.
    static func readPrivate(_ path: String) throws(Failure) -> [UInt8] {
        try read(path, atMost: privateLimit) { status in
            if status.st_mode & 0o077 != 0 {
                return "can be read or written by other users, but its mode must be 0600: chmod 0600 \(path)"
            }
            // The owner can read the file.
            let isOurs = status.st_uid == geteuid() || status.st_uid == 0
            return isOurs ? nil : "belongs to another user (uid \(status.st_uid))"
        }
    }

    /// Reads a file.
    ///
    /// - Parameter objection: Returns why a file with this status is refused; nil to accept it. The status is that
    ///   of the opened file: the path may lead to another file by now.
    private static func read(
        _ path: String, atMost limit: Int, objection: (stat) -> String?
    ) throws(Failure) -> [UInt8] {
        // Without O_NONBLOCK, opening a named pipe would wait for a writer.
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { throw .last(path) }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw .last(path) }
        guard status.st_mode & S_IFMT == S_IFREG else { throw Failure(path: path, reason: "is not a regular file") }
        if let objection = objection(status) { throw Failure(path: path, reason: objection) }
        var contents: [UInt8] = []
        // Files of procfs have no size.
        var chunk = [UInt8](repeating: 0, count: 64 * 1024)
        while true {
            let count = Glibc.read(descriptor, &chunk, chunk.count)
            guard count >= 0 else { throw .last(path) }
            if count == 0 { return contents }
            contents += chunk[..<count]
            guard contents.count <= limit else { throw Failure(path: path, reason: "is larger than \(limit) bytes") }
        }
    }
}

/// The bytes of a file, and its path for diagnostics.
struct PEMFile: Sendable {
    let path: String
    let bytes: [UInt8]
    /// The file as the conf file names it.
    let subject: Subject

    /// Reads a file.
    ///
    /// - Parameter section: The section that names it.
    init(_ path: String, in section: Place) throws(StartupError) {
        self.path = path
        subject = .file(path).within(section)
        do throws(FileContents.Failure) { bytes = try FileContents.read(path) } catch {
            throw StartupError(error.description, of: subject)
        }
    }

    /// Reads a private key, which only its owner may read.
    init(key path: String, in section: Place) throws(StartupError) {
        self.path = path
        subject = .privateKey(path).within(section)
        do throws(FileContents.Failure) { bytes = try FileContents.readPrivate(path) } catch {
            throw StartupError(error.description, of: subject)
        }
    }

    /// Returns the certificates in the file, at least one.
    ///
    /// - Parameter place: The beginning of messages.
    func certificates(_ place: String, _ library: LibraryContext) throws(StartupError) -> [Certificate] {
        try parse(place) { pem throws(CryptographyError) in try Certificate.all(inPEM: pem, library) }
    }

    /// Parses the content.
    func parse<Value>(
        _ place: String, _ body: ([UInt8]) throws(CryptographyError) -> Value
    ) throws(StartupError) -> Value {
        do throws(CryptographyError) { return try body(bytes) } catch {
            throw StartupError("\(place): \(path): \(error)", of: subject)
        }
    }
}

/// Finds which of several files is at fault: OpenSSL names the failed call, but operators correct files.
enum FaultyFile {
    /// Checks each file by itself, and the key against the certificate.
    ///
    /// - Parameter section: The section that names them.
    /// - Returns: Nil if no file is at fault.
    static func among(certificate: String, key: String, in section: Place) -> Subject? {
        guard let library = try? LibraryContext() else { return nil }
        guard let leaf = certificates(in: certificate, library)?.first else {
            return .file(certificate).within(section)
        }
        guard let bytes = try? FileContents.read(key),
            let parsed = try? PrivateKey(pem: bytes, library), leaf.isCertificate(of: parsed)
        else { return .privateKey(key).within(section) }
        return nil
    }

    /// Checks files with authorities.
    static func among(authorities: [String], in section: Place?) -> Subject? {
        guard let library = try? LibraryContext() else { return nil }
        return authorities.first { path in
            guard let certificates = certificates(in: path, library) else { return true }
            return certificates.isEmpty || !certificates.allSatisfy(\.isAuthority)
        }.map { .file($0).within(section) }
    }

    private static func certificates(in path: String, _ library: LibraryContext) -> [Certificate]? {
        guard let bytes = try? FileContents.read(path) else { return nil }
        return try? Certificate.all(inPEM: bytes, library)
    }
}

extension FileContents {
    /// Reads a bearer token: printable characters without spaces, so that no field can follow it. Line ends at the end
    /// are ignored.
    ///
    /// - Parameters:
    ///   - path: Nil for no token.
    ///   - section: The section of the conf file, for messages.
    static func token(_ path: String?, of section: String) throws(StartupError) -> String? {
        guard let path else { return nil }
        var bytes: [UInt8]
        do { bytes = try readPrivate(path) } catch { throw StartupError(in: "\(section): token_file", error) }
        while let last = bytes.last, last == 0x0a || last == 0x0d { bytes.removeLast() }
        guard (1...4_096).contains(bytes.count), bytes.allSatisfy({ (0x21...0x7e).contains($0) }) else {
            throw StartupError(
                "\(section): token_file: \(path): it must be one line of printable characters without spaces",
                of: .file(path))
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}
