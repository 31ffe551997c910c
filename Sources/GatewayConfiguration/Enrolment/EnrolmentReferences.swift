internal import Vocabulary

/// What holds between enrolment and the rest of the conf file.
enum EnrolmentReferences {
    /// What enrolment cannot do without. It looks at the file as written, so that a section with another mistake still
    /// counts as there.
    static func check(_ root: Item, _ reading: Reading) {
        guard root["enrolment"] != nil else {
            if reading.role == .enrolment {
                reading.refuse(
                    root.place, "the role `enrolment` needs the section `enrolment`", expected: "`enrolment`: a mapping"
                )
            }
            return
        }
        let lacking = AppReferences.lacking(in: root)
        if !lacking.isEmpty {
            reading.refuse(
                root.place(of: "enrolment"), "`enrolment` needs the sections `registry` and `apps`",
                expected: lacking.joined(separator: " and "))
        }
    }

    /// A software phone's statements lead to no root of Apple's, so its own must be named.
    ///
    /// - Parameter root: where the settings stand.
    static func checkRoots(_ apps: [AppConfiguration], in root: Item, _ reading: Reading) {
        guard root["enrolment"] != nil else { return }
        for (index, app) in apps.enumerated()
        where app.environment == .simulator && app.attestation.rootPath == nil {
            // Every app that was read stands in the file at its place.
            guard let item = root["apps"]?.elements[index] else { continue }
            reading.refuse(
                item.place(of: "environment"),
                "devices of the app `\(app.id)` cannot enrol: Apple's root does not attest software phones",
                expected: "`attestation_root`, the certificate of the simulated authority")
        }
    }

    /// A ceiling needs numbers to compare with, and these come in receipts that are asked for.
    ///
    /// - Parameter root: where the settings stand.
    static func checkCeilings(_ apps: [AppConfiguration], in root: Item, _ reading: Reading) {
        guard root["enrolment"]?["receipts"] == nil else { return }
        for (index, app) in apps.enumerated() {
            guard case .required(_?) = app.attestation.receipt, let item = root["apps"]?.elements[index] else {
                continue
            }
            reading.warn(
                item.place(of: "maximum_risk"),
                "`maximum_risk` of the app `\(app.id)` rarely applies: the first receipt of a device has no risk metric,"
                    + " and newer receipts are not requested",
                expected: "the section `enrolment.receipts`")
        }
    }

    /// Nobody at Apple's knows a software phone.
    ///
    /// - Parameter root: where the settings stand.
    static func checkAskable(_ apps: [AppConfiguration], in root: Item, _ reading: Reading) {
        guard let enrolment = root["enrolment"], let receipts = enrolment["receipts"], receipts["base_url"] == nil
        else {
            return
        }
        for app in apps where app.environment == .simulator {
            reading.warn(
                enrolment.place(of: "receipts"),
                "no risk metric is requested for the app `\(app.id)`: Apple does not know software phones",
                expected: "`base_url` of a service that replaces Apple's")
        }
    }

    /// Its address is its own, and its certificates are good for something.
    ///
    /// - Parameter root: where the settings stand.
    static func check(
        _ enrolment: EnrolmentConfiguration, _ listeners: [ListenerConfiguration],
        _ administration: AdministrationConfiguration?, in root: Item, _ reading: Reading
    ) {
        guard let item = root["enrolment"] else { return }
        let address = enrolment.address
        let objections =
            listeners.map { address.objection(to: $0.address, "a listener of the gateway's clients") }
            + (administration?.listeners ?? []).map {
                address.objection(to: $0.address, "a listener of the administration")
            }
        if let objection = objections.compactMap(\.self).first {
            reading.refuse(item.place(of: "address"), objection, expected: "another address")
        }
        let path = enrolment.authority.certificatePath
        let authority = WrittenFiles.segments(of: path)
        let trusted = listeners.flatMap(\.allClients).flatMap(\.authoritiesPaths)
        if !trusted.contains(where: { WrittenFiles.segments(of: $0) == authority }) {
            reading.warn(
                item["authority"]?.place(of: "certificate") ?? item.place,
                "no listener trusts \(Printable.quoted(path)): phones would receive certificates that no listener"
                    + " takes",
                expected: "the same file among `clients.authorities` of a listener")
        }
    }
}
