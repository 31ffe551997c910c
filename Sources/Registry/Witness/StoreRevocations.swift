/// All that a store says of keys that are no good, read once while it is compared with the journal, however often it is asked for.
final class StoreRevocations {
    private var said: Revocations?

    func all(of store: some WitnessedStore) throws -> Revocations {
        if let said { return said }
        var found = Revocations()
        try store.eachRevocation { for entry in $0 { found.apply(entry) } }
        said = found
        return found
    }

    /// The store says more than before.
    func forget() { said = nil }
}
