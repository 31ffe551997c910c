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
        guard let entry = getpwnam(name) else { throw StartupError("\(place): there is no user \(name)") }
        return entry.pointee.pw_uid
    }

    fileprivate static func group(of name: String, place: String) throws(StartupError) -> UInt32 {
        if let number = UInt32(name) { return number }
        guard let entry = getgrnam(name) else { throw StartupError("\(place): there is no group \(name)") }
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
