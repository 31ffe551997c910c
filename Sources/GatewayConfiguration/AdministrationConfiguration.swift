/// The administration interface of the running gateway.
public struct AdministrationConfiguration: Equatable, Sendable {
    /// Of a Unix socket, at most 107 bytes; its directory is there.
    public let socketPath: String
    /// TCP addresses, each of them there once.
    public let listeners: [AdministrationListenerConfiguration]
}

extension AdministrationConfiguration {
    enum Keys {
        static let socket = Key(
            "socket", .socketToMake, whenMissing: .refused,
            "The Unix socket for operators' commands; created at start.")
        static let listeners = Key(
            "listeners", .administrationListeners, whenMissing: .means("[]"),
            "TCP addresses that serve the same to clients with a token or a certificate.")

        static let section = Section(path: "administration", settings: [socket.setting, listeners.setting])
    }

    init?(_ item: Item, _ reading: Reading) {
        guard let reader = SectionReader(item, Keys.section, reading) else { return nil }
        let socketPath = reader.read(Keys.socket)
        let listeners = reader.read(Keys.listeners)
        guard let socketPath, let listeners else { return nil }
        self.socketPath = socketPath
        self.listeners = listeners
    }
}

extension Kind where Value == String {
    fileprivate static var socketToMake: Kind {
        // `sun_path` of unix(7) has 108 bytes, the last of which is NUL.
        let longest = 107
        let file = fileToMake("the path of a Unix socket, at most \(longest) bytes, in a directory that exists")
        return Kind(expected: file.expected, shape: file.shape) { item, reading in
            guard let path = file.read(item, reading) else { return nil }
            guard path.utf8.count <= longest else {
                reading.refuse(
                    item.place, "the path \(Printable.quoted(path)) has \(path.utf8.count) bytes",
                    expected: file.expected)
                return nil
            }
            return path
        }
    }
}
