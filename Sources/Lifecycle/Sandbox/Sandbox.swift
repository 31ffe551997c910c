internal import Glibc
internal import Logging

/// Whether the process gives up access to files that it does not need.
public enum Sandbox: String, CaseIterable, Sendable {
    case off
    /// As far as the kernel supports it; a log line states the result.
    case bestEffort = "best-effort"
    /// The process does not start if the kernel does not support it.
    case required
}

/// The result of the sandbox.
enum Confinement: Equatable, Sendable {
    /// It was not requested.
    case none
    /// - version: The kernel's version of Landlock.
    case landlock(version: Int)
    /// Inherited from the process that this one takes over from, whose rules it cannot leave.
    case inherited
    /// - reason: The text for messages.
    case unavailable(reason: String)

    var isInForce: Bool {
        switch self {
        case .landlock, .inherited: true
        case .none, .unavailable: false
        }
    }
}

extension Sandbox {
    /// Confines the process. Called before any other thread starts.
    ///
    /// - Parameter program: The program that an upgrade starts.
    func enter(_ blueprint: Blueprint, _ inheritance: Inheritance, program: String) throws(StartupError) -> Confinement
    {
        guard self != .off else { return .none }
        // One more layer per upgrade would reach the kernel's limit of sixteen.
        guard !inheritance.takesOver else {
            // If the predecessor could not be confined, neither is this process.
            return Landlock.version > 0 ? .inherited : Landlock.missing
        }
        if case .file(let path) = blueprint.registry?.store {
            // SQLite's default directories are writable for everybody.
            setenv("SQLITE_TMPDIR", path.lastIndex(of: "/").map { String(path[..<$0]) } ?? ".", 1)
        }
        let maps = (try? FileContents.read("/proc/self/maps")).map { String(decoding: $0, as: UTF8.self) } ?? ""
        let confinement = Landlock.enter(
            FileRules(blueprint, program: program, libraries: FileRules.mapped(maps)))
        if self == .required, case .unavailable(let reason) = confinement {
            throw StartupError("--sandbox required: \(reason)")
        }
        return confinement
    }
}

extension Confinement {
    /// The text for the log; nil if there is none.
    /// Logs the result, if there is anything to say.
    func log(to logger: Logger) {
        guard let description else { return }
        if isInForce { logger.info("\(description)") } else { logger.warning("\(description)") }
    }

    private var description: String? {
        switch self {
        case .none: nil
        case .landlock(let version):
            "sandbox: Landlock \(version): no access to files outside the configuration"
        case .inherited: "sandbox: inherited from the previous process"
        case .unavailable(let reason): "sandbox: none, access to files is not restricted: \(reason)"
        }
    }
}

/// The directories and files that a process may use, with everything below them. A value without I/O.
///
/// Directories rather than files, where files are replaced under the same name: a rule applies to the present file of
/// that name.
struct FileRules: Equatable, Sendable {
    /// To read.
    var readable: Set<String> = []
    /// To read, make, change and remove.
    var writable: Set<String> = []
    /// To read and to run.
    var executable: Set<String> = []

    /// What every process needs: host names, users and groups, certificates of authorities, time zones, the kernel's
    /// view of the process.
    static let system: Set<String> = [
        "/etc/resolv.conf", "/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager", "/etc/hosts",
        "/etc/host.conf", "/etc/gai.conf", "/etc/nsswitch.conf", "/etc/passwd", "/etc/group", "/etc/services",
        "/etc/localtime",
        "/usr/share/zoneinfo",
        "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/usr/lib/ssl", "/usr/share/ca-certificates", "/proc", "/dev/urandom",
        "/dev/random",
        "/sys/devices/system/cpu",
    ]

    /// Makes the rules.
    ///
    /// - Parameters:
    ///   - read: The conf file and the files it names.
    ///   - written: Files that are created or changed.
    ///   - program: The program that an upgrade starts.
    ///   - libraries: Files that the program has loaded.
    init(read: some Sequence<String>, written: some Sequence<String>, program: String, libraries: some Sequence<String>)
    {
        readable = Self.system.union(read.map(Self.place))
        writable = Set(written.map(Self.place)).union(["/dev/null"])
        executable = Set((libraries.filter { $0.contains(".so") } + [program]).map(Self.directory))
        executable.formUnion(["/lib", "/lib64", "/usr/lib", "/usr/lib64"])
    }

    /// Returns the directory of a file; for devices and files in the root directory the file itself, because those
    /// directories contain everything.
    private static func place(of path: String) -> String {
        let directory = directory(of: path)
        return ["/", "/dev", "/etc", "/proc"].contains(directory) ? path : directory
    }

    private static func directory(of path: String) -> String {
        guard let slash = path.lastIndex(of: "/") else { return "." }
        return slash == path.startIndex ? "/" : String(path[..<slash])
    }

    /// Returns the files that are mapped into memory.
    ///
    /// - Parameter maps: The text of /proc/PID/maps (proc(5)): the sixth word is a path.
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
        if let copy = blueprint.enrolment?.statusListCopyPath { written.append(copy) }
        if let socket = blueprint.configuration.administration?.socketPath { written.append(socket) }
        written += blueprint.listeners.compactMap(\.socket?.path)
        if case .file(let path) = blueprint.configuration.log.accessDestination { written.append(path) }
        let files = blueprint.mentions.files
        self.init(
            // Targets of links too: rules apply to the real file.
            read: files.union(files.compactMap(Self.resolved)), written: written, program: program,
            libraries: libraries)
    }

    private static func resolved(_ path: String) -> String? {
        guard let resolved = realpath(path, nil) else { return nil }
        defer { free(resolved) }
        return String(cString: resolved)
    }
}
