internal import Glibc

/// The database file, and its log, before SQLite sees them.
enum StoreFile {
    /// Whether there is no file, or nothing in it. False if that is unknown.
    static func isEmpty(_ path: String) -> Bool {
        var status = stat()
        guard stat(path, &status) == 0 else { return errno == ENOENT }
        return status.st_size == 0
    }

    /// Refuses links, pipes and the like, where there is anything. Behind a link SQLite would have its log beside the
    /// link's target, where nobody looks at it; a pipe would block the process that opens it for ever.
    static func requireOrdinary(_ paths: String...) throws(StoreOpenError) {
        for path in paths {
            var status = stat()
            // Opening the file reports any other fault.
            guard lstat(path, &status) == 0, status.st_mode & S_IFMT != S_IFREG else { continue }
            throw .failed(
                path: path, detail: "not a regular file but, for example, a link or a pipe: name the file itself")
        }
    }

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

    /// Makes what the log seems to hold what it does hold, before anything is built on it: a copy takes its place.
    ///
    /// After a sync that failed, the kernel reads back what never reached the disk, and has its next sync succeed
    /// without writing it. Commits behind such a gap would be lost with it in a power cut, and so would what was moved
    /// into the database from there. A process that opens a log cannot know whether that has happened to an earlier
    /// one.
    static func replaceLog(of path: String) throws(StoreOpenError) {
        let log = path + "-wal"
        let copy = log + ".copy"
        let source = open(log, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
        guard source >= 0 else {
            if errno == ENOENT { return }
            throw failure(path, "read the log of")
        }
        defer { close(source) }
        // Of a process that was killed while it copied.
        unlink(copy)
        let target = open(copy, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard target >= 0 else { throw failure(path, "copy the log of") }
        let isCopied = copyAll(from: source, to: target) && fdatasync(target) == 0 && rename(copy, log) == 0
        let reason = errno
        close(target)
        guard isCopied else {
            unlink(copy)
            errno = reason
            throw failure(path, "copy the log of")
        }
        try syncDirectory(of: path)
    }

    /// For a look at it. - Precondition: nothing has the other name.
    static func copy(_ path: String, to copy: String) throws(StoreOpenError) {
        let source = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
        guard source >= 0 else { throw failure(path, "read") }
        defer { close(source) }
        let target = open(copy, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard target >= 0 else { throw failure(copy, "make") }
        defer { close(target) }
        guard copyAll(from: source, to: target) else { throw failure(copy, "write") }
    }

    private static func copyAll(from source: Int32, to target: Int32) -> Bool {
        while true {
            // In the kernel; at most 2 GiB at a time (sendfile(2)).
            let count = sendfile(target, source, nil, 1 << 30)
            if count == 0 { return true }
            if count < 0, errno != EINTR { return false }
        }
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
    static func syncDirectory(of path: String) throws(StoreOpenError) {
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
