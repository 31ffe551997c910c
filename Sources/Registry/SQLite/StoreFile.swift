internal import Glibc

/// The database file before SQLite sees it.
enum StoreFile {
    /// Creates the file, readable by its owner alone, or finds that it is there. SQLite gives its log the same mode.
    static func prepare(_ path: String, creating: Bool) throws(StoreOpenError) {
        guard creating else {
            guard access(path, F_OK) == 0 else { throw errno == ENOENT ? .missing(path: path) : failure(path, "find") }
            return
        }
        let descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        if descriptor < 0 {
            if errno == EEXIST { return }
            throw failure(path, "create")
        }
        close(descriptor)
        try syncDirectory(of: path)
    }

    /// Which file has the name now; nil if none has. Names can be given to other files while one is open.
    static func identity(of path: String) -> Identity? {
        var status = stat()
        guard lstat(path, &status) == 0 else { return nil }
        return Identity(device: UInt64(status.st_dev), node: UInt64(status.st_ino))
    }

    struct Identity: Equatable {
        let device: UInt64
        let node: UInt64
    }

    /// Without this a power cut could take the name of a file whose content was synced.
    private static func syncDirectory(of path: String) throws(StoreOpenError) {
        let directory =
            path.lastIndex(of: "/").map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
        let descriptor = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { throw failure(path, "open the directory of") }
        defer { close(descriptor) }
        guard fsync(descriptor) == 0 else { throw failure(path, "sync the directory of") }
    }

    private static func failure(_ path: String, _ doing: String) -> StoreOpenError {
        .failed(path: path, detail: "cannot \(doing) the file: \(String(cString: strerror(errno)))")
    }
}
