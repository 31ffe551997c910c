internal import Registry

/// The approved services and their descriptions, as far as they were fetched. All generations share it.
struct ServiceDirectory {
    struct Entry {
        var service: FederationService
        /// Nil until it was fetched.
        var description: ServiceDescription?
    }

    private(set) var entries: [String: Entry] = [:]

    /// Replaces the services, and keeps the descriptions of those whose place is the same.
    mutating func replace(with services: [FederationService]) {
        var next: [String: Entry] = [:]
        for service in services {
            let known = entries[service.id]
            let isSame = known?.service.descriptionURL == service.descriptionURL && known?.service.url == service.url
            next[service.id] = Entry(service: service, description: isSame ? known?.description : nil)
        }
        entries = next
    }

    mutating func describe(_ id: String, _ description: ServiceDescription?) {
        entries[id]?.description = description
    }

    /// Returns the descriptions of the services that speak all protocols, in the order of their ids.
    func speaking(_ protocols: Set<String>) -> [ServiceDescription] {
        sorted.compactMap(\.description).filter { protocols.isSubset(of: $0.protocols) }
    }

    /// Returns the descriptions of services by their URLs.
    func described(_ urls: Set<String>) -> [ServiceDescription] {
        sorted.filter { urls.contains($0.service.url) }.compactMap(\.description)
    }

    private var sorted: [Entry] { entries.values.sorted { $0.service.id < $1.service.id } }
}
