/// Who speaks PostgreSQL's protocol. The statements are the same for all; what surrounds them is not.
enum DatabaseKind {
    case postgresql
    /// Every transaction is serializable; nobody is notified, so changes are found by looking.
    case cockroach
    case yugabyte

    /// - Parameter version: what `version()` says.
    init(version: String) {
        if version.contains("CockroachDB") {
            self = .cockroach
        } else if version.contains("-YB-") {
            self = .yugabyte
        } else {
            self = .postgresql
        }
    }

    var notifies: Bool { self == .postgresql }
    /// Transactions that change devices wait for each other instead of failing and being tried again.
    var locksTables: Bool { self == .postgresql }
}
