/// Whether what the database calls committed is on disk, and stays when it fails over.
struct DatabaseDurability {
    private let database: RegistryDatabase

    init(_ database: RegistryDatabase) {
        self.database = database
    }

    func check() throws {
        // The others replicate by consensus and have nothing to be set.
        guard database.kind == .postgresql else { return }
        for name in ["fsync", "full_page_writes"] where try setting(name) != "on" {
            throw refusal("\(name) must be on")
        }
        let commit = try setting("synchronous_commit")
        guard database.settings.hosts.count > 1 else {
            if commit == "off" { throw refusal("synchronous_commit must not be off") }
            return
        }
        // Another host may be promoted: it must have everything that was acknowledged.
        guard ["on", "remote_apply"].contains(commit) else {
            throw refusal("with several hosts synchronous_commit must be on or remote_apply, not \(commit)")
        }
        guard try !setting("synchronous_standby_names").isEmpty else {
            throw refusal("with several hosts synchronous_standby_names must not be empty")
        }
    }

    private func setting(_ name: String) throws -> String {
        try database.run("SELECT current_setting($1)", [.text(name)]).text(0, 0)
    }

    private func refusal(_ detail: String) -> StoreOpenError {
        .failed(path: database.settings.name, detail: detail)
    }
}
