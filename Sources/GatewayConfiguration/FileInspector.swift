internal import Glibc

/// Asks the file system whether a file that the conf file names can be used. Tests put their own answers here.
public struct FileInspector: Sendable {
    /// What speaks against reading the file at this path: "No such file or directory". Nothing if it is there, is
    /// readable and has something in it.
    let objection: @Sendable (String) -> String?
    /// What speaks against making a file at this path, or opening the one that is there. Nothing if its directory is
    /// there and it is none itself.
    let makingObjection: @Sendable (String) -> String?
    /// What speaks against keeping a secret in the file at this path. Nothing if its owner alone may read and write it.
    let privacyObjection: @Sendable (String) -> String?
    /// Where files that the conf file includes come from.
    var library = SourceLibrary.system

    public init(
        objection: @escaping @Sendable (String) -> String?,
        makingObjection: @escaping @Sendable (String) -> String? = { _ in nil },
        privacyObjection: @escaping @Sendable (String) -> String? = { _ in nil }
    ) {
        self.objection = objection
        self.makingObjection = makingObjection
        self.privacyObjection = privacyObjection
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
        privacyObjection: FileReader.exposure)
}

extension Kind where Value == String {
    /// A file that must be there, readable and not empty; the path is resolved. What is in it is for others to judge.
    static func file(_ what: String) -> Kind {
        path(what) { path, reading in reading.objection(toFile: path) }
    }

    /// The same, with a secret in it: nobody but its owner may read or write it.
    static func secretFile(_ what: String) -> Kind {
        path(what + ", mode 0600") { path, reading in
            reading.objection(toFile: path) ?? reading.objection(toSecretIn: path)
        }
    }

    /// A secret file with the private key of a certificate.
    static func keyFile(_ what: String) -> Kind {
        let file = secretFile(what)
        return Kind(expected: file.expected, shape: file.shape) { item, reading in
            guard let path = file.read(item, reading) else { return nil }
            reading.mention(.privateKey(path), at: item.place)
            return path
        }
    }

    /// A file that need not be there, in a directory that must; the path is resolved.
    static func fileToMake(_ what: String) -> Kind {
        path(what) { path, reading in reading.objection(toMaking: path) }
    }

    private static func path(
        _ what: String, _ objection: @escaping @Sendable (String, Reading) -> String?
    ) -> Kind {
        Kind(expected: what, shape: .text(pattern: nil)) { item, reading in
            guard let text = item.text else {
                reading.refuse(item.place, "found \(item.summary)", expected: what)
                return nil
            }
            guard !text.isEmpty else {
                reading.refuse(item.place, "the path is empty", expected: what)
                return nil
            }
            let path = reading.resolve(path: text, at: item.place)
            reading.mention(.file(path), at: item.place)
            if let objection = objection(path, reading) {
                // What a shell would have put in their place.
                let isShell = text.contains("$") || text.hasPrefix("~")
                let hint = isShell ? "; `$` and `~` are not expanded" : ""
                reading.refuse(
                    item.place, "the file \(Printable.quoted(path)) cannot be used: \(objection)\(hint)", expected: what
                )
                return nil
            }
            return path
        }
    }
}

extension FileInspector {
    /// Takes every file for good: for those who need what the conf file says, and not what it refers to.
    public static let unquestioned = FileInspector(objection: { _ in nil })
}

/// Reads files through the C library: its error numbers say exactly what is wrong.
enum FileReader {
    struct Failure: Error, Equatable {
        let text: String

        init(_ text: String) { self.text = text }

        /// What the system says to the error of the call just made.
        static var last: Failure {
            let code = errno
            // Never null, and copied before another call of this thread can change it.
            return Failure(unsafe String(cString: strerror(code)))
        }
    }

    /// The first bytes of a file, all of them if there are no more than `limit`.
    static func read(_ path: String, atMost limit: Int) -> Result<[UInt8], Failure> {
        // Opening a named pipe would wait for a writer, and a start of the gateway must not.
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { return .failure(.last) }
        defer { close(descriptor) }
        var status = stat()
        guard unsafe fstat(descriptor, &status) == 0 else { return .failure(.last) }
        guard status.st_mode & S_IFMT == S_IFREG else { return .failure(Failure("it is not a regular file")) }
        return read(descriptor, atMost: limit)
    }

    /// Whether a directory is at this path; symbolic links are followed.
    static func isDirectory(_ path: String) -> Result<Bool, Failure> {
        var status = stat()
        guard unsafe stat(path, &status) == 0 else { return .failure(.last) }
        return .success(status.st_mode & S_IFMT == S_IFDIR)
    }

    /// The same for every path to one file; nothing where there is none.
    static func identity(_ path: String) -> String? {
        var status = stat()
        guard unsafe stat(path, &status) == 0 else { return nil }
        return "\(status.st_dev):\(status.st_ino)"
    }

    /// What speaks against keeping a secret in the file at this path; symbolic links are followed. Nothing if it is this
    /// user's, or root's, and nobody else may read or write it.
    static func exposure(of path: String) -> String? {
        var status = stat()
        guard unsafe stat(path, &status) == 0 else { return Failure.last.text }
        guard status.st_mode & 0o077 == 0 else { return "other users can read or write it: its mode must be 0600" }
        guard status.st_uid == geteuid() || status.st_uid == 0 else {
            return "it belongs to another user (uid \(status.st_uid))"
        }
        return nil
    }

    /// What is doubtful about a private key in the file at this path; symbolic links are followed.
    static func openness(of path: String) -> String? {
        var status = stat()
        guard unsafe stat(path, &status) == 0, status.st_mode & 0o006 != 0 else { return nil }
        return status.st_mode & 0o004 != 0 ? "can be read by everyone" : "can be written by everyone"
    }

    private static func read(_ descriptor: Int32, atMost limit: Int) -> Result<[UInt8], Failure> {
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: min(limit, 1 << 16))
        while bytes.count < limit {
            let wanted = min(chunk.count, limit - bytes.count)
            // `wanted` is never more than the chunk holds.
            let count = unsafe Glibc.read(descriptor, &chunk, wanted)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { return .failure(.last) }
            if count == 0 { break }
            bytes += chunk[..<count]
        }
        return .success(bytes)
    }
}

/// Where the files come from that a conf file includes.
struct SourceLibrary: Sendable {
    /// The first bytes of a file.
    let read: @Sendable (_ path: String, _ limit: Int) -> Result<[UInt8], FileReader.Failure>
    /// The files that fit a pattern, as `glob(7)` understands it, in the order of their names' bytes.
    let matches: @Sendable (_ pattern: String) -> Result<[String], FileReader.Failure>
    /// The same for every path to one file; nothing where there is none.
    let identity: @Sendable (_ path: String) -> String?

    static let system = SourceLibrary(
        read: { FileReader.read($0, atMost: $1) }, matches: Self.glob, identity: FileReader.identity)

    private static func glob(_ pattern: String) -> Result<[String], FileReader.Failure> {
        var found = unsafe glob_t()
        // Initialised above, and filled or left empty by the call, whatever it returns.
        defer { unsafe globfree(&found) }
        switch unsafe Glibc.glob(pattern, GLOB_ERR | GLOB_NOSORT, nil, &found) {
        case 0: break
        case GLOB_NOMATCH: return .success([])
        case GLOB_NOSPACE: return .failure(FileReader.Failure("not enough memory for the matching files"))
        default: return .failure(FileReader.Failure("one of its directories is missing or cannot be read"))
        }
        var paths: [String] = []
        for index in 0..<Int(unsafe found.gl_pathc) {
            // glob(3): as many paths as it says, none of them null.
            guard let path = unsafe found.gl_pathv[index] else { break }
            unsafe paths.append(String(cString: path))
        }
        return .success(paths.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) })
    }
}
