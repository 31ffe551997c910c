internal import CLandlock
internal import EventLoop
internal import Glibc

/// Gives up access to files with Landlock (landlock(7)), permanently, for this thread and for all threads and
/// programs that it starts from then on. Open files stay open.
enum Landlock {
    private static let reading = UInt64(LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
    private static let writing =
        reading
        | UInt64(
            LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG
                | LANDLOCK_ACCESS_FS_MAKE_SOCK)
    private static let executing = reading | UInt64(LANDLOCK_ACCESS_FS_EXECUTE)
    /// All rights of the first version, from `EXECUTE` to `MAKE_SYM`.
    private static let first: UInt64 = (1 << 13) - 1
    /// Since version 3: changing a file's length. Earlier versions do not restrict it.
    private static let truncating: UInt64 = 1 << 14
    /// The rights that a rule for a file, not a directory, may have.
    private static let ofFiles =
        UInt64(LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_READ_FILE) | truncating

    /// The kernel's version of Landlock; 0 if there is none or it is disabled.
    static var version: Int {
        max(0, ag_landlock_create_ruleset(nil, 0, UInt32(LANDLOCK_CREATE_RULESET_VERSION)))
    }

    /// The result if the kernel has no Landlock.
    static var missing: Confinement {
        .unavailable(reason: "this kernel does not support Landlock, or it is disabled")
    }

    /// Confines the process. Called before any other thread starts. Paths that do not exist are skipped.
    static func enter(_ rules: FileRules) -> Confinement {
        let version = version
        guard version > 0 else { return missing }
        let handled = version >= 3 ? first | truncating : first
        var attributes = landlock_ruleset_attr()
        attributes.handled_access_fs = handled
        // Only the first member is known to every version.
        let ruleset = Int32(
            ag_landlock_create_ruleset(&attributes, UInt(MemoryLayout<UInt64>.size), 0))
        guard ruleset >= 0 else { return .unavailable(reason: "landlock_create_ruleset: \(reason)") }
        defer { close(ruleset) }
        for (paths, rights) in [
            (rules.readable, reading), (rules.writable, writing | truncating), (rules.executable, executing),
        ] {
            for path in paths where !add(path, rights & handled, to: ruleset) {
                return .unavailable(reason: "landlock_add_rule: \(path): \(reason)")
            }
        }
        // The kernel requires it of unprivileged processes, which must not impose rules on set-user-ID programs
        // (PR_SET_NO_NEW_PRIVS).
        guard ag_prctl(Int32(ag_no_new_privileges), 1, 0, 0, 0) == 0 else {
            return .unavailable(reason: "prctl: \(reason)")
        }
        guard ag_landlock_restrict_self(ruleset, 0) == 0 else {
            return .unavailable(reason: "landlock_restrict_self: \(reason)")
        }
        return .landlock(version: version)
    }

    private static func add(_ path: String, _ rights: UInt64, to ruleset: Int32) -> Bool {
        // O_PATH, which Glibc declares for _GNU_SOURCE only: it neither opens a pipe nor needs the right to read.
        let descriptor = open(path, 0o10000000 | O_CLOEXEC)
        guard descriptor >= 0 else { return true }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { return false }
        var rule = landlock_path_beneath_attr()
        rule.parent_fd = descriptor
        rule.allowed_access = status.st_mode & S_IFMT == S_IFDIR ? rights : rights & ofFiles
        // EBADFD: a pipe or a socket, for which there are no rules.
        return ag_landlock_add_rule(ruleset, Int32(LANDLOCK_RULE_PATH_BENEATH.rawValue), &rule, 0) == 0
            || errno == EBADFD
    }

    private static var reason: String { EventLoopError.text(of: errno) }
}
