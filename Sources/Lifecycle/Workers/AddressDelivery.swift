internal import EventLoop

/// Which workers have yet to be told that servers have other addresses. Each is told of one change at a time, and of all that
/// came about meanwhile when it has taken that up: however long a worker stands still, one message waits for it.
///
/// A value without I/O: the process tells the workers what it answers.
struct AddressDelivery {
    /// By worker: what it is to be told when it has taken up what it was told.
    private var waiting: [Int: Set<NamedServer>] = [:]

    /// - Returns: the workers to tell now.
    mutating func changed(_ servers: some Sequence<NamedServer>, for workers: Set<Int>) -> Set<Int> {
        var idle: Set<Int> = []
        for worker in workers {
            if waiting[worker] == nil {
                waiting[worker] = []
                idle.insert(worker)
            } else {
                waiting[worker]?.formUnion(servers)
            }
        }
        return idle
    }

    /// - Returns: what to tell the worker next; nil if there is nothing.
    mutating func taken(by worker: Int) -> Set<NamedServer>? {
        guard let servers = waiting[worker], !servers.isEmpty else {
            waiting[worker] = nil
            return nil
        }
        waiting[worker] = []
        return servers
    }

    mutating func ended(_ worker: Int) { waiting[worker] = nil }
}
