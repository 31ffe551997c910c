internal import Glibc

/// The exclusive right to open a store, held by one object in one process: `flock` on `PATH.lock`.
///
/// It has its own file, because SQLite's locks belong to the process and are lost when any descriptor of the file is
/// closed. The kernel releases this lock however the process ends. The file is never removed, because a second process
/// could then lock a new one with the same name.
struct StoreLock: ~Copyable {
    private let descriptor: Int32

    init(path: String) throws(StoreOpenError) {
        let lock = path + ".lock"
        // From here on `deinit` closes it, also when this initializer throws.
        descriptor = open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else {
            throw .failed(path: path, detail: "cannot open \(lock): \(String(cString: strerror(errno)))")
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
