internal import EventLoop
internal import Glibc
internal import GatewayConfiguration

/// Users and groups of the machine, by name or number.
enum LocalUser {
    /// Returns the number of a user.
    ///
    /// - Parameter place: The beginning of the message if there is no such user.
    static func number(of name: String, place: String) throws(StartupError) -> UInt32 {
        if let number = UInt32(name) { return number }
        errno = 0
        guard let entry = getpwnam(name) else { throw absence(of: "user \(name)", place) }
        return entry.pointee.pw_uid
    }

    /// Returns the error, to be called at once: errno says whether names could be read at all.
    private static func absence(of name: String, _ place: String) -> StartupError {
        let reason = errno
        let isReadable = reason != EACCES && reason != EPERM
        return StartupError(
            "\(place): "
                + (isReadable
                    ? "there is no \(name)"
                    : "the \(name) cannot be looked up: \(EventLoopError.text(of: reason)); write the number"))
    }

    /// Returns whether this process may give its files that owner and group (chown(2)). A service manager can forbid it
    /// nevertheless.
    static func mayGive(owner: UInt32?, group: UInt32?) -> Bool {
        guard geteuid() != 0 else { return true }
        guard owner ?? geteuid() == geteuid() else { return false }
        guard let group, group != getegid() else { return true }
        var groups = [gid_t](repeating: 0, count: max(0, Int(getgroups(0, nil))))
        let count = getgroups(Int32(groups.count), &groups)
        return groups.prefix(max(0, Int(count))).contains(group)
    }

    fileprivate static func group(of name: String, place: String) throws(StartupError) -> UInt32 {
        if let number = UInt32(name) { return number }
        errno = 0
        guard let entry = getgrnam(name) else { throw absence(of: "group \(name)", place) }
        return entry.pointee.gr_gid
    }
}

extension SocketFile.Access {
    init(_ socket: SocketConfiguration?, place: String) throws(StartupError) {
        self.init(
            mode: socket?.mode ?? 0o660,
            owner: try socket?.owner.map { name throws(StartupError) in
                try LocalUser.number(of: name, place: "\(place), socket: owner")
            },
            group: try socket?.group.map { name throws(StartupError) in
                try LocalUser.group(of: name, place: "\(place), socket: group")
            })
    }
}
