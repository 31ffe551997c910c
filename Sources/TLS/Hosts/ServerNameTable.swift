/// Values by the names of hosts. Asked with the bytes of a name as they came, in any case, it makes no copy of them.
struct ServerNameTable<Value> {
    /// In the order of the names.
    let entries: [(name: ServerName, value: Value)]

    /// - Parameter entries: no name twice.
    init(_ entries: [(name: ServerName, value: Value)]) {
        self.entries = entries.sorted { $1.name.order(of: $0.name.bytes.span) < 0 }
    }

    func place(of name: Span<UInt8>) -> Int? {
        var (low, high) = (0, entries.count)
        while low < high {
            let middle = (low + high) / 2
            let order = entries[middle].name.order(of: name)
            if order == 0 { return middle }
            if order < 0 { high = middle } else { low = middle + 1 }
        }
        return nil
    }
}
