/// What clients of the gateway reach, and what they have, administers nothing.
enum AdministrationSeparation {
    /// - Parameter root: where the settings stand.
    static func check(
        _ administration: AdministrationConfiguration, _ listeners: [ListenerConfiguration],
        _ enrolment: EnrolmentConfiguration?, in root: Item, _ reading: Reading
    ) {
        let place = root["administration"]?.place(of: "listeners") ?? root.place
        let authorities = Set(
            listeners.flatMap(\.allClients).flatMap(\.authoritiesPaths)
                + [enrolment?.authority.certificatePath].compactMap(\.self))
        for listener in administration.listeners {
            let objections = listeners.lazy.compactMap {
                listener.address.objection(to: $0.address, "a listener of the gateway's clients")
            }
            if let objection = objections.first { reading.refuse(place, objection, expected: "another address") }
            for path in listener.tls?.authoritiesPaths ?? [] where authorities.contains(path) {
                reading.refuse(
                    place, "every client of the gateway can have a certificate of \(Printable.quoted(path))",
                    expected: "an authority that issues only operators' certificates")
            }
        }
    }
}
