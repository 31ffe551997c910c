extension Kind where Value == [String: UpstreamConfiguration] {
    /// At least one, by name.
    static var upstreams: Kind {
        let expected = "a mapping of at least one name to an upstream"
        let shape = Shape.named(UpstreamConfiguration.Keys.section, pattern: Name.pattern)
        return Kind(expected: expected, shape: shape) { item, reading in
            guard case .mapping(let entries) = item.content else {
                reading.refuse(item.place, "found \(item.summary)", expected: expected)
                return nil
            }
            guard !entries.isEmpty else {
                reading.refuse(item.place, "the mapping is empty", expected: expected)
                return nil
            }
            var upstreams: [String: UpstreamConfiguration] = [:]
            for entry in entries {
                do throws(InvalidValue) {
                    let name = try Name.parse(entry.key)
                    upstreams[name] = read(entry, reading)
                } catch {
                    reading.refuse(
                        entry.keyPlace, error.message, expected: Name.expected, suggestion: error.suggestion)
                }
            }
            return upstreams.count == entries.count ? upstreams : nil
        }
    }

    private static func read(_ entry: Item.Entry, _ reading: Reading) -> UpstreamConfiguration? {
        guard !entry.value.isNothing else {
            reading.refuse(
                entry.keyPlace, "the upstream \(Printable.quoted(entry.key)) has no settings",
                expected: "a mapping with: \(UpstreamConfiguration.Keys.section.names.joined(separator: ", "))")
            return nil
        }
        return UpstreamConfiguration(entry.value, reading)
    }
}
