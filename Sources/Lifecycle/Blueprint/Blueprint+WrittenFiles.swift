internal import Gateway
internal import GatewayConfiguration
internal import Glibc
internal import Registry

/// Whether the files can be used that the gateway writes, as far as it can be seen without taking them from one that runs: who starts
/// it at night should not be the first to find out.
extension Blueprint {
    func checkRegistry() throws(StartupError) {
        guard let registry else { return }
        _ = try GatewaySecrets.read(registry.secretPath)
        var paths = [registry.secretPath, registry.revocationsPath]
        switch registry.store {
        case .file(let path): paths.insert(path, at: 0)
        case .postgresql(let database):
            _ = try PostgreSQLSettings.readPassword(database)
            try PostgreSQLSettings.checkTLS(database)
        }
        for path in paths {
            if let objection = Self.objection(toUsing: path) {
                throw StartupError("registry: \(objection)", of: .file(path))
            }
        }
        let journal = registry.revocationsPath
        var status = stat()
        guard lstat(journal, &status) != 0 || status.st_mode & S_IFMT == S_IFREG else {
            throw StartupError(
                "registry: revocations: \(journal): not a regular file but, for example, a link or a directory: name the file itself",
                of: .file(journal))
        }
    }

    func checkLog() throws(StartupError) {
        guard case .file(let path) = log.access else { return }
        var objection = Self.isThere(path) ? nil : Self.objection(toMaking: path)
        if Self.isThere(path), Glibc.access(path, W_OK) != 0 { objection = "\(path): this user cannot write it" }
        if let objection { throw StartupError("log: access: \(objection)", of: .file(path)) }
    }

    /// Parts of one registry of which one is gone: `run` refuses that unless an option permits it.
    var registryWarnings: [StartupWarning] {
        guard let registry, case .file(let path) = registry.store else { return [] }
        let journal = registry.revocationsPath
        switch (Self.isThere(path), Self.isThere(journal), Self.isThere(journal + ".mark")) {
        case (false, true, _), (false, _, true):
            return [
                StartupWarning(
                    "the registry \(path) is missing, but its revocation journal or commit mark exists: `run` will refuse to start "
                        + "without devices; restore a backup with `attestgate registry import`", of: .file(path))
            ]
        case (true, false, true):
            return [
                StartupWarning(
                    "the revocation journal \(journal) is missing, but the registry and its commit mark exist: `run` will "
                        + "refuse to start, because revocations would be lost", of: .file(journal))
            ]
        case (true, _, _) where !Self.isThere(registry.secretPath):
            return [
                StartupWarning(
                    "the secret \(registry.secretPath) is missing, but the registry exists: `run` will refuse to create a new one, "
                        + "unless the registry has no devices", of: .file(registry.secretPath))
            ]
        default: return []
        }
    }

    private static func isThere(_ path: String) -> Bool { Glibc.access(path, F_OK) == 0 }

    /// What speaks against a file with others beside it.
    private static func objection(toUsing path: String) -> String? {
        if let objection = objection(toMaking: path) { return objection }
        let isGood = !isThere(path) || Glibc.access(path, R_OK | W_OK) == 0
        return isGood ? nil : "\(path): this user cannot read and write it"
    }

    private static func objection(toMaking path: String) -> String? {
        let directory = path.lastIndex(of: "/").map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
        return Glibc.access(directory, W_OK | X_OK) == 0 ? nil : "\(directory): this user cannot create files in it"
    }
}
