internal import Vocabulary

/// Checks between routes, apps and the registry. They read the file as written, so that a route with another mistake is
/// still checked for its level and its apps.
enum AppReferences {
    static func check(_ root: Item, _ reading: Reading) {
        let lacking = lacking(in: root)
        // An id that is not readable is reported already; references to it are no further mistake.
        let ids = root["apps"]?.elements.map { $0["id"]?.text.flatMap { AppID($0) } } ?? []
        let known = ids.contains(nil) ? [] : ids.compactMap(\.self)
        for listener in root["listeners"]?.elements ?? [] where !lacking.isEmpty {
            checkAcceptance(of: listener, lacking, reading)
            for host in listener["hosts"]?.elements ?? [] { checkAcceptance(of: host, lacking, reading) }
        }
        for route in root["routes"]?.elements ?? [] {
            guard let require = level(of: route), require != .certificate else { continue }
            if !lacking.isEmpty {
                refuse(require, of: route, lacking, reading)
            } else if !known.isEmpty {
                checkApps(of: route, known, reading)
            }
        }
    }

    /// What of the two sections there is too little of, as it is said to an operator. A section that is there but
    /// refused counts: that is a mistake of its own.
    static func lacking(in root: Item) -> [String] {
        var lacking: [String] = []
        if root["registry"] == nil { lacking.append("a section `registry`") }
        switch root["apps"]?.content {
        case nil: lacking.append("a section `apps`")
        case .sequence(let apps) where apps.isEmpty: lacking.append("at least one app in the section `apps`")
        case .some: break
        }
        return lacking
    }

    /// Nothing when the route, or its `require`, is refused.
    private static func level(of route: Item) -> RouteConfiguration.Requirement? {
        guard case .mapping = route.content else { return nil }
        guard let require = route["require"] else { return .standard }
        return require.text.flatMap { RouteConfiguration.Requirement(rawValue: $0) }
    }

    /// A self-signed certificate says nothing by itself.
    ///
    /// - Parameter host: or a listener.
    private static func checkAcceptance(of host: Item, _ lacking: [String], _ reading: Reading) {
        let words = host["clients"]?["accept"]?.elements ?? []
        guard let item = words.first(where: { $0.text == ListenerConfiguration.Clients.Acceptance.registered.rawValue })
        else { return }
        reading.refuse(
            item.place, "`registered` needs the sections `registry` and `apps`, which know the registered certificates",
            expected: "\(lacking.joined(separator: " and ")), or `accept: [issued]`")
    }

    /// A level that cannot be enforced is refused, never weakened: the default too.
    private static func refuse(
        _ require: RouteConfiguration.Requirement, of route: Item, _ lacking: [String], _ reading: Reading
    ) {
        let subject =
            route["require"] == nil
            ? "`require` is missing; its default `\(require.rawValue)`" : "`require: \(require.rawValue)`"
        reading.refuse(
            route.place(of: "require"), "\(subject) needs the sections `registry` and `apps`",
            expected: "\(lacking.joined(separator: " and ")), or `require: certificate`")
    }

    private static func checkApps(of route: Item, _ known: [AppID], _ reading: Reading) {
        for item in route["apps"]?.elements ?? [] {
            guard let text = item.text, let id = AppID(text), !known.contains(id) else { continue }
            let names = known.map(\.description)
            reading.refuse(
                item.place, "there is no app \(Printable.quoted(text))",
                expected: "one of: \(names.prefix(20).joined(separator: ", "))",
                suggestion: Spelling.nearest(to: text, among: names))
        }
    }
}
