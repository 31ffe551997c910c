internal import TLS

/// Which clients the hosts of a listener admit.
struct ListenerAdmissions {
    /// Those that ask for none of the hosts.
    let standard: ClientAdmission
    let hosts: [ServerName: ClientAdmission]

    var all: [ClientAdmission] { [standard] + hosts.values }

    /// What is said now of a connection that came in under an earlier generation of the listener: by the host that has the name
    /// it asked for.
    ///
    /// - Parameter wasHost: whether a host had that name then.
    /// - Returns: nil if that host is gone. What the listener says for everybody else was never meant for its clients.
    func successor(of name: ServerName?, wasHost: Bool) -> ClientAdmission? {
        guard let name else { return standard }
        return hosts[name] ?? (wasHost ? nil : standard)
    }
}

extension ListenerAdmissions {
    init(_ listener: VirtualHosts) {
        // The configuration gives no name to two hosts.
        self.init(
            standard: listener.standard.admission,
            hosts: Dictionary(uniqueKeysWithValues: listener.admissions.map { ($0.name, $0.admission) }))
    }
}
