internal import EventLoop

/// The workers that have yet to learn new addresses of servers. Each receives one change at a time, and after taking it
/// up all changes that came meanwhile: however long a worker stands still, one message waits for it.
///
/// A value without I/O: the process tells the workers what it answers.
struct AddressDelivery {
    /// By worker: what it receives next, once it has taken up the last message.
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
