/// What holds between routes and upstreams. It looks at the file as written, so that a route with another mistake
/// still counts as one that uses its upstream.
enum UpstreamReferences {
    static func check(_ root: Item, _ reading: Reading) {
        let names = root["upstreams"]?.entries.map(\.key) ?? []
        // Without upstreams there is one mistake, reported already, not one for every route.
        guard !names.isEmpty else { return }
        let routes = root["routes"]?.elements ?? []
        let references = routes.compactMap { $0["upstream"] }
        let known = Set(names)
        var used: Set<String> = []
        // As much a mistake, and reported.
        var hasUnknown = references.count < routes.count
        for reference in references {
            guard let name = reference.text else { continue }
            used.insert(name)
            guard !known.contains(name) else { continue }
            hasUnknown = true
            reading.refuse(
                reference.place, "there is no upstream \(Printable.quoted(name))",
                expected: "one of: \(names.prefix(20).joined(separator: ", "))",
                suggestion: Spelling.nearest(to: name, among: names))
        }
        // A misspelt reference, or none, makes an upstream look unused; saying both would only distract.
        guard !hasUnknown else { return }
        for entry in root["upstreams"]?.entries ?? [] where !used.contains(entry.key) && Name.isName(entry.key) {
            reading.warn(entry.keyPlace, "no route uses the upstream \(Printable.quoted(entry.key))")
        }
    }
}
