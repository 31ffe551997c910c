package import Attestation
internal import Cryptography
package import Registry
package import Vocabulary

/// An app whose devices of one environment may be served, in the form that requests need.
struct AdmittedApp {
    /// The app id as text.
    let id: [UInt8]
    /// Whether the app is an Android app, by the form of its id.
    let isAndroid: Bool
    let environment: AttestationEnvironment
    let counters: CounterMode
    /// SHA-256 of the app id, with which an assertion of this app begins.
    let rpIDHash: Digest256
    /// The policy for the extensions of every assertion.
    let extensions: AppExtensionPolicy
    /// The highest risk metric admitted; nil for any.
    let maximumRisk: UInt32?
}

/// The apps of the configuration, for one worker.
package struct AdmittedApps {
    /// The settings of an app in one environment.
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
    /// By app, for each of its environments.
    private let places: [AppNumber: [Int]]

    init(_ settings: [Setting], _ registry: DeviceRegistry, _ library: LibraryContext) throws(CryptographyError) {
        var apps: [AdmittedApp] = []
        var places: [AppNumber: [Int]] = [:]
        for (place, setting) in settings.enumerated() {
            let id = Array(setting.id.description.utf8)
            apps.append(
                AdmittedApp(
                    id: id, isAndroid: setting.id.isAndroid, environment: setting.environment,
                    counters: setting.counters,
                    rpIDHash: try library.sha256(of: id.span), extensions: Self.copy(of: setting.extensions),
                    maximumRisk: setting.maximumRisk))
            places[registry.number(of: setting.id), default: []].append(place)
        }
        self.apps = apps
        self.places = places
    }

    /// Copies the set: otherwise all workers would count references to a shared one with every request.
    private static func copy(of policy: AppExtensionPolicy) -> AppExtensionPolicy {
        var copy = policy
        if let categories = policy.categories { copy.categories?.admitted = Set(categories.admitted.map { $0 }) }
        return copy
    }

    subscript(place: Int) -> AdmittedApp { apps[place] }

    /// Returns the index of a device's app in its environment, or of the app in another one if the app is configured for
    /// others only. Nil if it is not, or no longer, configured.
    func place(of device: DeviceSnapshot) -> Int? {
        guard let places = places[device.app] else { return nil }
        for place in places where apps[place].environment == device.environment { return place }
        return places.first
    }
}
