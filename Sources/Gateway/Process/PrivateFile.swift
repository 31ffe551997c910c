internal import Glibc

/// Reads small files that nobody but their owner may read: keys, passphrases, secrets.
enum PrivateFile {
    /// - Parameter limit: the most bytes it may have.
    /// - Throws: if it is no regular file, if its group or others may read or write it, or if it belongs to somebody other
    ///   than this user or root: whoever owns it can read it.
    static func read(_ path: String, limit: Int) throws(StartupError) -> [UInt8] {
        // Opening a named pipe would wait for a writer, and a start must not.
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { throw failure(path, "cannot be read: \(String(cString: strerror(errno)))") }
        defer { close(descriptor) }
        // Of what is open, not of what has that name now.
        var status = stat()
        guard fstat(descriptor, &status) == 0 else {
            throw failure(path, "cannot be read: \(String(cString: strerror(errno)))")
        }
        guard status.st_mode & S_IFMT == S_IFREG else { throw failure(path, "is not a file") }
        guard status.st_mode & 0o077 == 0 else {
            throw failure(path, "may be read or written by others: its mode must be 0600 or 0400")
        }
        guard status.st_uid == geteuid() || status.st_uid == 0 else {
            throw failure(path, "belongs to another user (uid \(status.st_uid))")
        }
        return try read(descriptor, path, limit)
    }

    private static func read(_ descriptor: Int32, _ path: String, _ limit: Int) throws(StartupError) -> [UInt8] {
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: limit + 1)
        while true {
            let count = Glibc.read(descriptor, &chunk, chunk.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw failure(path, "cannot be read: \(String(cString: strerror(errno)))") }
            if count == 0 { return bytes }
            bytes += chunk[..<count]
            guard bytes.count <= limit else { throw failure(path, "is larger than \(limit) bytes") }
        }
    }

    private static func failure(_ path: String, _ reason: String) -> StartupError { StartupError("\(path): \(reason)") }
}
