internal import Glibc

extension Sandbox {
    /// Confines the process, as far as it is to be. Before any other thread is started.
    ///
    /// - Parameter program: what an upgrade starts.
    func enter(_ blueprint: Blueprint, _ inheritance: Inheritance, program: String) throws(StartupError) -> Confinement
    {
        guard self != .off else { return .none }
        // One more layer with each upgrade would come to the kernel's limit of sixteen.
        guard !inheritance.takesOver else {
            // Where that could not be confined, nor is this.
            return Landlock.version > 0 ? .inherited : Landlock.missing
        }
        if case .file(let path) = blueprint.registry?.store {
            // SQLite's own choice are directories that everybody may write to.
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
    /// For the log; nil if there is nothing to say.
    var description: String? {
        switch self {
        case .none: nil
        case .landlock(let version):
            "sandbox: Landlock \(version): no access to files outside the configuration"
        case .inherited: "sandbox: inherited from the previous process"
        case .unavailable(let reason): "sandbox: none, access to files is not restricted: \(reason)"
        }
    }
}
