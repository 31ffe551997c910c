internal import Glibc

/// Operations on the database file and its log before SQLite opens them.
package enum StoreFile {
    /// Returns whether the file is missing or empty. False if that is unknown.
    package static func isEmpty(_ path: String) -> Bool {
        var status = stat()
        guard stat(path, &status) == 0 else { return errno == ENOENT }
        return status.st_size == 0
    }

    /// Refuses anything but regular files.
    ///
    /// SQLite would put the log beside the target of a link, where nobody expects it. A pipe would block the process
    /// forever.
    package static func requireOrdinary(_ paths: String...) throws(StoreOpenError) {
        for path in paths {
            var status = stat()
            // Opening the file reports other errors.
            guard lstat(path, &status) == 0, status.st_mode & S_IFMT != S_IFREG else { continue }
            throw .failed(
                path: path, detail: "not a regular file but, for example, a link or a pipe: name the file itself")
        }
    }

    /// Creates the file with mode 0600 if it is missing. SQLite gives its log the same mode.
    package static func prepare(_ path: String, creating: Bool) throws(StoreOpenError) {
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

    /// Replaces the log by a copy, so that its content is certainly on disk.
    ///
    /// After a failed sync the kernel may return data that never reached the disk, and its next sync succeeds without
    /// writing. A power failure would then lose these commits and everything after them. A process cannot know whether
    /// an earlier one had a failed sync.
    package static func replaceLog(of path: String) throws(StoreOpenError) {
        let log = path + "-wal"
        let copy = log + ".copy"
        let source = open(log, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
        guard source >= 0 else {
            if errno == ENOENT { return }
            throw failure(path, "read the log of")
        }
        defer { close(source) }
        // Removes the copy of a process that was killed.
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

    /// Copies a file for inspection.
    ///
    /// - Precondition: The destination does not exist.
    package static func copy(_ path: String, to copy: String) throws(StoreOpenError) {
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
            // The kernel copies at most 2 GiB at a time (sendfile(2)).
            let count = sendfile(target, source, nil, 1 << 30)
            if count == 0 { return true }
            if count < 0, errno != EINTR { return false }
        }
    }

    /// Returns the identity of the file with this name. Nil if there is none. A name can be given to another file while
    /// the first is open.
    package static func identity(of path: String) -> Identity? {
        var status = stat()
        guard lstat(path, &status) == 0 else { return nil }
        return Identity(device: UInt64(status.st_dev), node: UInt64(status.st_ino))
    }

    package struct Identity: Equatable {
        let device: UInt64
        let node: UInt64
    }

    /// Syncs the directory. Otherwise a power failure could remove the name of a synced file.
    package static func syncDirectory(of path: String) throws(StoreOpenError) {
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

/// The exclusive right to open a store, held by one object in one process: `flock` on `PATH.lock`.
///
/// It has its own file, because SQLite's locks belong to the process and are lost when any descriptor of the file is
/// closed. The kernel releases this lock however the process ends. The file is never removed, because a second process
/// could then lock a new one with the same name.
package struct StoreLock: ~Copyable {
    private let descriptor: Int32

    package init(path: String) throws(StoreOpenError) {
        let lock = path + ".lock"
        // From here on `deinit` closes it, also when this initializer throws.
        descriptor = open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else {
            let reason = errno
            let hint = reason == EACCES ? "; it must belong to the gateway's user, who must run this" : ""
            throw .failed(path: path, detail: "cannot open \(lock): \(String(cString: strerror(reason)))\(hint)")
        }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            let reason = errno
            if reason == EWOULDBLOCK { throw .locked(path: path) }
            throw .failed(path: path, detail: "cannot lock \(lock): \(String(cString: strerror(reason)))")
        }
    }

    /// Whether another object, of this process or of another one, holds the store now.
    static func isHeld(path: String) -> Bool {
        let descriptor = open(path + ".lock", O_RDWR | O_CLOEXEC | O_NOFOLLOW)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        return flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK
    }

    deinit {
        guard descriptor >= 0 else { return }
        // Closing does not release it while a child process that was just forked still has the descriptor.
        flock(descriptor, LOCK_UN)
        close(descriptor)
    }
}
