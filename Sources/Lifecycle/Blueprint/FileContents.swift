internal import Glibc

/// Reads the files a conf file names.
enum FileContents {
    struct Failure: Error, CustomStringConvertible {
        let path: String
        /// Behind the path.
        let reason: String
        /// There is no such file.
        var isMissing = false

        var description: String { "\(path): \(reason)" }

        static func last(_ path: String) -> Failure {
            let code = errno
            return Failure(
                path: path, reason: "cannot be read: \(String(cString: strerror(code)))", isMissing: code == ENOENT)
        }
    }

    /// More than any certificate bundle.
    private static let limit = 16 * 1024 * 1024
    /// More than any secret.
    private static let privateLimit = 64 * 1024

    static func read(_ path: String) throws(Failure) -> [UInt8] {
        try read(path, atMost: limit) { _ in nil }
    }

    /// Reads a file that holds a secret. One that anybody but its owner may read or write is refused, and so is another
    /// user's, but root's.
    static func readPrivate(_ path: String) throws(Failure) -> [UInt8] {
        try read(path, atMost: privateLimit) { status in
            if status.st_mode & 0o077 != 0 {
                return "can be read or written by other users, but its mode must be 0600: chmod 0600 \(path)"
            }
            // The file's owner can read it.
            let isOurs = status.st_uid == geteuid() || status.st_uid == 0
            return isOurs ? nil : "belongs to another user (uid \(status.st_uid))"
        }
    }

    /// - Parameter objection: why a file of that status is refused; nil if it is not. The status is that of what was opened: the
    ///   path may lead to another file by now.
    private static func read(
        _ path: String, atMost limit: Int, objection: (stat) -> String?
    ) throws(Failure) -> [UInt8] {
        // Opening a named pipe would wait for a writer, for ever.
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
