package import Attestation
internal import Cryptography
package import Registry
package import Vocabulary

/// An app whose devices may be served, as requests need it.
struct AdmittedApp {
    /// The text of the app id.
    let id: [UInt8]
    let environment: AttestationEnvironment
    let counters: CounterMode
    /// SHA-256 of the app id: what an assertion of this app begins with.
    let rpIDHash: Digest256
    /// What is demanded of every assertion's extensions.
    let extensions: AppExtensionPolicy
    /// The highest risk metric of a device; nil for every one.
    let maximumRisk: UInt32?
}

/// The apps of the configuration, for one worker.
package struct AdmittedApps {
    /// What the configuration says of one.
    package struct Setting: Sendable {
        package let id: AppID
        package let environment: AttestationEnvironment
        package let counters: CounterMode
        package let extensions: AppExtensionPolicy
        package let maximumRisk: UInt32?

        package init(
            id: AppID, environment: AttestationEnvironment, counters: CounterMode, extensions: AppExtensionPolicy,
            maximumRisk: UInt32? = nil
        ) {
            self.id = id
            self.environment = environment
            self.counters = counters
            self.extensions = extensions
            self.maximumRisk = maximumRisk
        }
    }

    private let apps: [AdmittedApp]
    private let places: [AppNumber: Int]

    init(_ settings: [Setting], _ registry: DeviceRegistry, _ library: LibraryContext) throws(CryptographyError) {
        var apps: [AdmittedApp] = []
        var places: [AppNumber: Int] = [:]
        for (place, setting) in settings.enumerated() {
            let id = Array(setting.id.description.utf8)
            apps.append(
                AdmittedApp(
                    id: id, environment: setting.environment, counters: setting.counters,
                    rpIDHash: try library.sha256(of: id.span), extensions: Self.copy(of: setting.extensions),
                    maximumRisk: setting.maximumRisk))
            places[registry.number(of: setting.id)] = place
        }
        self.apps = apps
        self.places = places
    }

    /// With a set of its own: all workers would count references to a shared one, request after request.
    private static func copy(of policy: AppExtensionPolicy) -> AppExtensionPolicy {
        var copy = policy
        if let categories = policy.categories { copy.categories?.admitted = Set(categories.admitted.map { $0 }) }
        return copy
    }

    subscript(place: Int) -> AdmittedApp { apps[place] }

    /// The app's place in the configuration; nil if it is not, or no longer, configured.
    func place(of app: AppNumber) -> Int? { places[app] }
}
