/// What clients of the gateway reach, and what they have, administers nothing.
enum AdministrationApart {
    /// - Parameter root: where the settings stand.
    static func check(
        _ administration: AdministrationConfiguration, _ listeners: [ListenerConfiguration],
        _ enrolment: EnrolmentConfiguration?, in root: Item, _ reading: Reading
    ) {
        let place = root["administration"]?.place(of: "listeners") ?? root.place
        let addresses = Set(listeners.map(\.address))
        let authorities = Set(
            listeners.flatMap(\.allClients).flatMap(\.authoritiesPaths)
                + [enrolment?.authority.certificatePath].compactMap(\.self))
        for listener in administration.listeners {
            if addresses.contains(listener.address) {
                reading.refuse(
                    place, "\(listener.address) is a listener of the gateway's clients", expected: "another address")
            }
            for path in listener.tls?.authoritiesPaths ?? [] where authorities.contains(path) {
                reading.refuse(
                    place, "every client of the gateway has a certificate of \(Printable.quoted(path))",
                    expected: "an authority of operators alone")
            }
        }
    }
}
