internal import Glibc

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
