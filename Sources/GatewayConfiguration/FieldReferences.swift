internal import Vocabulary

/// What holds between the request fields that are removed, those that are forwarded, and those that routes admit.
enum FieldReferences {
    /// - Parameters:
    ///   - stripped: in lower case.
    ///   - root: as written, for the places.
    static func check(stripping stripped: [String], in root: Item, _ reading: Reading) {
        for entry in root[Configuration.Keys.forwardHeaders.setting.name]?.elements ?? [] {
            guard let name = entry.text?.lowercased() else { continue }
            if stripped.contains(name) {
                reading.refuse(entry.place, "\(entry.summary) is also among the `strip_headers`")
            }
            if ProtectedFields.refused.contains(where: { $0.matches(name) }) {
                reading.warn(
                    entry.place,
                    "with \(entry.summary) a client can have a service execute another method or path than the gateway allowed",
                    expected: "a service that ignores the field, or no \(entry.summary)")
            }
        }
        for route in root[Configuration.Keys.routes.setting.name]?.elements ?? [] {
            // What a service could take for a field that the gateway removes, or that a proof covers.
            let covered = (route[RouteConfiguration.Keys.components.setting.name]?.elements ?? []).compactMap {
                $0.text?.lowercased()
            }
            for entry in route[RouteConfiguration.Keys.unusualHeaders.setting.name]?.elements ?? [] {
                guard let name = entry.text.map(ProtectedFields.plain), (stripped + covered).contains(name) else {
                    continue
                }
                reading.refuse(entry.place, FieldName.confusion(of: entry.summary, with: name))
            }
        }
    }
}
