internal import Glibc

/// Checks of the files that a conf file names. Tests supply their own answers.
public struct FileInspector: Sendable {
    /// Returns the reason why the file cannot be read, such as "No such file or directory". Nil if it exists, is
    /// readable and is not empty.
    let objection: @Sendable (String) -> String?
    /// Returns the reason why the file cannot be created or opened. Nil if its directory exists and the path is no
    /// directory.
    let makingObjection: @Sendable (String) -> String?
    /// Returns the reason why the file cannot hold a secret. Nil if only its owner may read and write it.
    let privacyObjection: @Sendable (String) -> String?
    /// Returns whether there is a file.
    let existence: @Sendable (String) -> Bool
    /// Returns the runtime directory of the gateway with this conf file. Nil if it has none.
    let runtimeDirectory: @Sendable (_ file: String) -> String?

    /// The source of included files.
    var library = SourceLibrary.system

    public init(
        objection: @escaping @Sendable (String) -> String?,
        makingObjection: @escaping @Sendable (String) -> String? = { _ in nil },
        privacyObjection: @escaping @Sendable (String) -> String? = { _ in nil },
        existence: @escaping @Sendable (String) -> Bool = { _ in false },
        runtimeDirectory: @escaping @Sendable (_ file: String) -> String? = { _ in nil }
    ) {
        self.objection = objection
        self.makingObjection = makingObjection
        self.privacyObjection = privacyObjection
        self.existence = existence
        self.runtimeDirectory = runtimeDirectory
    }

    /// The real file system.
    public static let system = FileInspector(
        objection: { path in
            switch FileReader.read(path, atMost: 1) {
            case .success(let bytes): bytes.isEmpty ? "it is empty" : nil
            case .failure(let reason): reason.text
            }
        },
        makingObjection: { path in
            let directory = path.lastIndex(of: "/").map { String(path[...$0]) } ?? "."
            return switch FileReader.isDirectory(directory) {
            case .failure(let reason): "its directory: \(reason.text)"
            case .success(false): "its directory: it is not a directory"
            case .success(true): FileReader.isDirectory(path) == .success(true) ? "it is a directory" : nil
            }
        },
        privacyObjection: FileReader.exposure, existence: { FileReader.identity($0) != nil },
        runtimeDirectory: { _ in PackagedPlaces.runtimeDirectory() })
}

extension FileInspector {
    /// An inspector that accepts every file, for callers that need only the text of the conf file, such as commands to
    /// a running gateway.
    public static let unquestioned = FileInspector(
        objection: { _ in nil }, existence: { FileReader.identity($0) != nil },
        runtimeDirectory: PackagedPlaces.runtimeDirectory(of:))
}

/// Texts about files that cannot be opened.
package enum OpenFailure {
    /// Returns the system's text, after `Permission denied` with the users in question: commands that ran as root leave
    /// files that the gateway's user cannot open.
    package static func text(of code: CInt, _ path: String) -> String {
        // Never null, and copied before another call of this thread can change it.
        let reason = unsafe String(cString: strerror(code))
        guard code == EACCES else { return reason }
        var status = stat()
        let owner = unsafe stat(path, &status) == 0 ? ", the file belongs to uid \(status.st_uid)" : ""
        return "\(reason): this process has uid \(geteuid())\(owner)"
    }
}

/// File access through the C library, whose error numbers say exactly what is wrong.
enum FileReader {
    struct Failure: Error, Equatable {
        let text: String

        init(_ text: String) { self.text = text }

        /// The error of the last system call.
        static var last: Failure {
            let code = errno
            // Never null, and copied before another call of this thread can change it.
            return Failure(unsafe String(cString: strerror(code)))
        }
    }

    /// Reads the first `limit` bytes of a file, or all if it has fewer.
    static func read(_ path: String, atMost limit: Int) -> Result<[UInt8], Failure> {
        // Opening a named pipe without O_NONBLOCK waits for a writer, which would block the start of the gateway.
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { return .failure(Failure(OpenFailure.text(of: errno, path))) }
        defer { close(descriptor) }
        var status = stat()
        guard unsafe fstat(descriptor, &status) == 0 else { return .failure(.last) }
        guard status.st_mode & S_IFMT == S_IFREG else { return .failure(Failure("it is not a regular file")) }
        return read(descriptor, atMost: limit)
    }

    /// Returns whether a directory is at this path. Follows symbolic links.
    fileprivate static func isDirectory(_ path: String) -> Result<Bool, Failure> {
        var status = stat()
        guard unsafe stat(path, &status) == 0 else { return .failure(.last) }
        return .success(status.st_mode & S_IFMT == S_IFDIR)
    }

    /// Returns a text that is equal for all paths of one file, or nil if there is no file.
    static func identity(_ path: String) -> String? {
        var status = stat()
        guard unsafe stat(path, &status) == 0 else { return nil }
        return "\(status.st_dev):\(status.st_ino)"
    }

    /// More than a certificate and its chain.
    private static let certificateLimit = 64 * 1024

    /// Returns the reason why the file cannot hold a secret. Nil if the file belongs to this user or to root, and
    /// nobody else may read or write it. Follows symbolic links.
    fileprivate static func exposure(of path: String) -> String? {
        var status = stat()
        guard unsafe stat(path, &status) == 0 else { return Failure.last.text }
        // Another mode would not help.
        if case .success(let bytes) = read(path, atMost: certificateLimit) {
            let text = String(decoding: bytes, as: UTF8.self)
            if text.contains("-----BEGIN CERTIFICATE-----"), !text.contains("PRIVATE KEY-----") {
                return "it holds a certificate, but no private key: are the paths of the two swapped?"
            }
        }
        guard status.st_mode & 0o077 == 0 else {
            return "other users can read or write it, but its mode must be 0600: chmod 0600 \(path)"
        }
        guard status.st_uid == geteuid() || status.st_uid == 0 else {
            return "it belongs to another user (uid \(status.st_uid))"
        }
        return nil
    }

    private static func read(_ descriptor: Int32, atMost limit: Int) -> Result<[UInt8], Failure> {
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: min(limit, 1 << 16))
        while bytes.count < limit {
            let wanted = min(chunk.count, limit - bytes.count)
            // `wanted` never exceeds the chunk.
            let count = unsafe Glibc.read(descriptor, &chunk, wanted)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { return .failure(.last) }
            if count == 0 { break }
            bytes += chunk[..<count]
        }
        return .success(bytes)
    }
}

/// The source of included files.
struct SourceLibrary: Sendable {
    /// Reads the first bytes of a file.
    let read: @Sendable (_ path: String, _ limit: Int) -> Result<[UInt8], FileReader.Failure>
    /// Returns the files that match a pattern, as `glob(7)` defines it, in the order of their names' bytes.
    let matches: @Sendable (_ pattern: String) -> Result<[String], FileReader.Failure>
    /// Returns a text that is equal for all paths of one file, or nil if there is no file.
    let identity: @Sendable (_ path: String) -> String?

    static let system = SourceLibrary(
        read: { FileReader.read($0, atMost: $1) }, matches: Self.glob, identity: FileReader.identity)

    private static func glob(_ pattern: String) -> Result<[String], FileReader.Failure> {
        var found = unsafe glob_t()
        // Initialised above. The call fills it or leaves it empty, whatever it returns.
        defer { unsafe globfree(&found) }
        switch unsafe Glibc.glob(pattern, GLOB_ERR | GLOB_NOSORT, nil, &found) {
        case 0: break
        case GLOB_NOMATCH: return .success([])
        case GLOB_NOSPACE: return .failure(FileReader.Failure("not enough memory for the matching files"))
        default: return .failure(FileReader.Failure("one of its directories is missing or cannot be read"))
        }
        var paths: [String] = []
        for index in 0..<Int(unsafe found.gl_pathc) {
            // glob(3) guarantees `gl_pathc` paths, none of them null.
            guard let path = unsafe found.gl_pathv[index] else { break }
            unsafe paths.append(String(cString: path))
        }
        return .success(paths.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) })
    }
}
