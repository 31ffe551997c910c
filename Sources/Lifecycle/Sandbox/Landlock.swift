internal import CLandlock
internal import EventLoop
internal import Glibc

/// Gives up access to files by Landlock (landlock(7)): for good, for this thread, and for all that it starts from then on, threads and
/// programs. What is open stays open.
enum Landlock {
    private static let reading = UInt64(LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
    private static let writing =
        reading
        | UInt64(
            LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG
                | LANDLOCK_ACCESS_FS_MAKE_SOCK)
    private static let executing = reading | UInt64(LANDLOCK_ACCESS_FS_EXECUTE)
    /// All that the first version knows, from `EXECUTE` to `MAKE_SYM`.
    private static let first: UInt64 = (1 << 13) - 1
    /// Since version 3: changing a file's length. Before it is not restricted.
    private static let truncating: UInt64 = 1 << 14
    /// What a rule for a file, and no directory, may say.
    private static let ofFiles =
        UInt64(LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_READ_FILE) | truncating

    /// - Returns: the version that the kernel has; 0 if none, or it is switched off.
    static var version: Int {
        max(0, ag_landlock_create_ruleset(nil, 0, UInt32(LANDLOCK_CREATE_RULESET_VERSION)))
    }

    /// What comes of it where there is no version.
    static var missing: Confinement {
        .unavailable(reason: "this kernel does not support Landlock, or it is disabled")
    }

    /// To be called before any other thread is started. Paths that are not there give no right.
    static func enter(_ rules: FileRules) -> Confinement {
        let version = version
        guard version > 0 else { return missing }
        let handled = version >= 3 ? first | truncating : first
        var attributes = landlock_ruleset_attr()
        attributes.handled_access_fs = handled
        // The first member is all that every version knows.
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
        // Without it a program that runs as another user could not be trusted to keep within the rules (PR_SET_NO_NEW_PRIVS).
        guard ag_prctl(Int32(ag_no_new_privileges), 1, 0, 0, 0) == 0 else {
            return .unavailable(reason: "prctl: \(reason)")
        }
        guard ag_landlock_restrict_self(ruleset, 0) == 0 else {
            return .unavailable(reason: "landlock_restrict_self: \(reason)")
        }
        return .landlock(version: version)
    }

    private static func add(_ path: String, _ rights: UInt64, to ruleset: Int32) -> Bool {
        // O_PATH, which Glibc has for _GNU_SOURCE only: neither opens a pipe nor needs the right to read.
        let descriptor = open(path, 0o10000000 | O_CLOEXEC)
        guard descriptor >= 0 else { return true }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { return false }
        var rule = landlock_path_beneath_attr()
        rule.parent_fd = descriptor
        rule.allowed_access = status.st_mode & S_IFMT == S_IFDIR ? rights : rights & ofFiles
        // EBADFD: a pipe or a socket, which no rule is about.
        return ag_landlock_add_rule(ruleset, Int32(LANDLOCK_RULE_PATH_BENEATH.rawValue), &rule, 0) == 0
            || errno == EBADFD
    }

    private static var reason: String { EventLoopError.text(of: errno) }
}
