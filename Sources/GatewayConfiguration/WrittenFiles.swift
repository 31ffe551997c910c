/// The files that the gateway creates. Two of them with one path would destroy each other.
struct WrittenFiles {
    private struct File {
        let path: String
        let setting: String
        let place: Place
    }

    private let files: [File]

    /// Collects the files.
    ///
    /// - Parameter root: the settings as written, for the places of diagnostics.
    init(
        _ registry: RegistryConfiguration?, _ enrolment: EnrolmentConfiguration?, _ apps: [AppConfiguration]?,
        _ administration: AdministrationConfiguration?, _ log: LogConfiguration?, in root: Item
    ) {
        let accessPath: String? = if case .file(let path) = log?.access { path } else { nil }
        let copyPath = registry == nil ? nil : apps.flatMap { enrolment?.android.statusListCopyPath(for: $0) }
        let settings = [
            (registry.flatMap(\.path), "registry", "path"), (registry?.secretPath, "registry", "secret"),
            (registry?.revocationsPath, "registry", "revocations"),
            (copyPath, "enrolment.android.status_list", "copy"),
            (administration?.socketPath, "administration", "socket"), (accessPath, "log", "access"),
        ]
        files = settings.compactMap { path, section, key in
            guard let path else { return nil }
            // The default of a section that is not written belongs to the one around it.
            let item = section.split(separator: ".").reduce(root) { $0[String($1)] ?? $0 }
            return File(path: path, setting: "\(section).\(key)", place: item.place(of: key))
        }
    }

    /// Refuses paths that occur twice, in the order of the settings' table: the registry must not be lost.
    func check(_ reading: Reading) {
        var owners: [[Substring]: String] = [:]
        for file in files {
            let segments = Self.segments(of: file.path)
            if let owner = owners[segments] {
                reading.refuse(
                    file.place, "\(Printable.quoted(file.path)) is already the file of `\(owner)`",
                    expected: "another file")
            } else {
                owners[segments] = file.setting
            }
        }
    }

    /// Returns whether two paths lead to one file, by their segments or by symbolic links.
    static func isSame(_ path: String, _ other: String) -> Bool {
        let (segments, others) = (Self.segments(of: path), Self.segments(of: other))
        if segments == others { return true }
        if let file = FileReader.identity(path), file == FileReader.identity(other) { return true }
        // The file may not exist yet.
        guard segments.last == others.last, let parent = FileReader.identity(folder(of: path)) else { return false }
        return parent == FileReader.identity(folder(of: other))
    }

    private static func folder(of path: String) -> String {
        guard let slash = path.lastIndex(of: "/") else { return "." }
        return String(path[...slash])
    }

    /// Returns the segments of a path. Other spellings count as the same path: `var/a`, `./var//a`, `var/b/../a`.
    /// Symbolic links are not resolved.
    static func segments(of path: String) -> [Substring] {
        var segments: [Substring] = path.hasPrefix("/") ? ["/"] : []
        for segment in path.split(separator: "/") where segment != "." {
            if segment == "..", let last = segments.last, last != "..", last != "/" {
                segments.removeLast()
            } else {
                segments.append(segment)
            }
        }
        return segments
    }
}
