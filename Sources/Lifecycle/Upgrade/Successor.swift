internal import CLinux
internal import Glibc

/// Starts the program that is to take over.
enum Successor {
    /// Not of the new process: they say who its service manager watches, and which sockets came with this one.
    private static let dropped = ["WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", Inheritance.variable]

    /// Starts a program with the descriptors it is to have, and with no others but the standard ones.
    ///
    /// - Parameters:
    ///   - command: the program's path, and its arguments.
    ///   - setting: a variable of its environment, `NAME=VALUE`.
    ///   - descriptors: which it gets in this order, from 3 on; nil for those that this process has there.
    /// - Returns: its process; nil if it could not be started, for the reason that `errno` says.
    static func spawn(_ command: [String], setting: String, descriptors: [Int32]?) -> pid_t? {
        guard let program = command.first else { return nil }
        let first = Inheritance.firstDescriptor
        // Above all the numbers that the new process is to have: none is overwritten before it has been copied.
        let copies = (descriptors ?? []).map { fcntl($0, F_DUPFD_CLOEXEC, first + Int32(descriptors?.count ?? 0)) }
        defer { for copy in copies where copy >= 0 { close(copy) } }
        guard copies.allSatisfy({ $0 >= 0 }) else { return nil }

        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        if descriptors != nil {
            for (number, copy) in copies.enumerated() {
                posix_spawn_file_actions_adddup2(&actions, copy, first + Int32(number))
            }
            ag_spawn_closefrom(&actions, first + Int32(copies.count))
        }
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        // Signals that this process ignores or has blocked are not the new one's to do without.
        var signals = sigset_t()
        sigemptyset(&signals)
        posix_spawnattr_setsigmask(&attributes, &signals)
        sigaddset(&signals, SIGPIPE)
        posix_spawnattr_setsigdefault(&attributes, &signals)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK) | Int16(POSIX_SPAWN_SETSIGDEF))

        var process = pid_t()
        let status = withTexts(command) { arguments in
            withTexts(environment + [setting]) { posix_spawn(&process, program, &actions, &attributes, arguments, $0) }
        }
        errno = status
        return status == 0 ? process : nil
    }

    private static var environment: [String] {
        var texts: [String] = []
        var next = environ
        while let text = next.pointee {
            let setting = String(cString: text)
            if !dropped.contains(where: { setting.hasPrefix($0 + "=") }) { texts.append(setting) }
            next += 1
        }
        return texts
    }

    /// C's array of strings, which lives as long as the call.
    private static func withTexts<Result>(
        _ texts: [String], _ body: (UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>) -> Result
    ) -> Result {
        let array = UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>.allocate(capacity: texts.count + 1)
        for (place, text) in texts.enumerated() { array[place] = strdup(text) }
        array[texts.count] = nil
        defer {
            for place in texts.indices { free(array[place]) }
            array.deallocate()
        }
        return body(array)
    }
}
