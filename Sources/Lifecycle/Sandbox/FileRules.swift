internal import Glibc

/// Which directories and files a process may use, and what for; everything below them too. A value without I/O.
///
/// Directories rather than files, where files are replaced by others of the same name: a rule is for what has the name now.
struct FileRules: Equatable, Sendable {
    /// To read.
    var readable: Set<String> = []
    /// To read, make, change and remove.
    var writable: Set<String> = []
    /// To read and to run.
    var executable: Set<String> = []

    /// What every process needs: names of machines, certificates of authorities, time zones, what the kernel says of the process.
    static let system: Set<String> = [
        "/etc/resolv.conf", "/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager", "/etc/hosts",
        "/etc/host.conf", "/etc/gai.conf", "/etc/nsswitch.conf", "/etc/services", "/etc/localtime",
        "/usr/share/zoneinfo",
        "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/usr/lib/ssl", "/usr/share/ca-certificates", "/proc", "/dev/urandom",
        "/dev/random",
        "/sys/devices/system/cpu",
    ]

    /// - Parameters:
    ///   - read: files that the conf file names, and the conf file.
    ///   - written: files that are made or changed.
    ///   - program: what an upgrade starts.
    ///   - libraries: files that the program has loaded.
    init(read: some Sequence<String>, written: some Sequence<String>, program: String, libraries: some Sequence<String>)
    {
        readable = Self.system.union(read.map(Self.place))
        writable = Set(written.map(Self.place)).union(["/dev/null"])
        executable = Set((libraries.filter { $0.contains(".so") } + [program]).map(Self.directory))
        executable.formUnion(["/lib", "/lib64", "/usr/lib", "/usr/lib64"])
    }

    /// The directory of a file; of devices themselves, and of what lies in the root, for their directories have everything.
    private static func place(of path: String) -> String {
        let directory = directory(of: path)
        return ["/", "/dev", "/etc", "/proc"].contains(directory) ? path : directory
    }

    private static func directory(of path: String) -> String {
        guard let slash = path.lastIndex(of: "/") else { return "." }
        return slash == path.startIndex ? "/" : String(path[..<slash])
    }

    /// The files that are mapped into memory.
    ///
    /// - Parameter maps: as /proc/PID/maps has it (proc(5)): the sixth word is a path.
    static func mapped(_ maps: String) -> Set<String> {
        Set(
            maps.split(separator: "\n").compactMap { line in
                line.firstIndex(of: "/").map { String(line[$0...]) }
            })
    }
}

extension FileRules {
    init(_ blueprint: Blueprint, program: String, libraries: some Sequence<String>) {
        var written: [String] = []
        if let registry = blueprint.registry {
            written += [registry.secretPath, registry.revocationsPath]
            if case .file(let path) = registry.store { written.append(path) }
        }
        if let socket = blueprint.administration?.socketPath { written.append(socket) }
        if case .file(let path) = blueprint.accessDestination { written.append(path) }
        let files = blueprint.mentions.files
        self.init(
            // Where links lead too: what counts is where a file lies.
            read: files.union(files.compactMap(Self.resolved)), written: written, program: program,
            libraries: libraries)
    }

    private static func resolved(_ path: String) -> String? {
        guard let resolved = realpath(path, nil) else { return nil }
        defer { free(resolved) }
        return String(cString: resolved)
    }
}
