internal import Vocabulary

/// The devices of an app that were attested for development, beside those of its users.
public struct DevelopmentDevicesConfiguration: Equatable, ConfigurationSection {
    @Setting(
        required: .integer(1...100_000), unit: "devices", "The maximum number of these devices, without revoked ones.")
    public var maximum: Int
    @Setting(
        required: .distinct(
            .text(ConfiguredName.expected, matching: ConfiguredName.pattern, ConfiguredName.parse), minimum: 1),
        "The routes that these devices may use.")
    public var routes: [String]

    static let section = Section("apps.development_devices", of: Self.self)
}

extension AppConfiguration.Environment {
    /// One environment, or Apple's two.
    static var list: Kind<[Self]> {
        let one = Kind<Self>.choice
        let several = Kind<[Self]>.distinct(.choice, minimum: 1)
        let expected = "\(one.expected), or `[production, development]`"
        return Kind(expected: expected, shape: .either([one.shape, several.shape])) { item, reading in
            if item.text != nil { return one.read(item, reading).map { [$0] } }
            guard let list = several.read(item, reading) else { return nil }
            guard list.count == 1 || Set(list) == [.production, .development] else {
                reading.refuse(
                    item.place, "software phones have roots of their own, and no other environment beside theirs",
                    expected: expected)
                return nil
            }
            return list.sorted { $0 == .production && $1 != .production }
        }
    }
}

extension AppConfiguration {
    /// Refuses limits for devices that the app does not have, and devices without limits.
    static func checkDevelopment(
        _ environments: Setting<[Environment]>, _ devices: Setting<DevelopmentDevicesConfiguration?>, _ reading: Reading
    ) -> Bool {
        guard let count = environments.value?.count, let limits = devices.value else {
            return true
        }
        switch (count > 1, limits) {
        case (true, nil):
            reading.refuse(
                environments.place,
                "`development_devices` is missing: which routes devices for development may use, and how many there may be",
                expected: "`development_devices: { maximum: 200, routes: [NAME] }`")
            return false
        case (false, _?):
            reading.refuse(
                devices.place, "`development_devices` has no effect with one environment",
                expected: "`environment: [production, development]`, or no `development_devices`")
            return false
        case (true, _?), (false, nil): return true
        }
    }

    /// Refuses routes for devices for development that do not exist, or do not admit the app.
    static func checkDevelopmentRoutes(
        _ apps: [AppConfiguration], _ routes: [RouteConfiguration], in root: Item, _ reading: Reading
    ) {
        for (app, item) in zip(apps, root["apps"]?.elements ?? []) {
            let places = item["development_devices"]?["routes"]?.elements ?? []
            for (name, place) in zip(app.developmentDevices?.routes ?? [], places) {
                guard let route = routes.first(where: { $0.name == name }) else {
                    reading.refuse(
                        place.place, "there is no route \(Printable.quoted(name))", expected: "the name of a route",
                        suggestion: Spelling.nearest(to: name, among: routes.map(\.name)))
                    continue
                }
                guard route.require >= .device, route.admits(app.id) else {
                    reading.refuse(
                        place.place, "the route \(Printable.quoted(name)) does not admit devices of the app",
                        expected: "a route with `require: device` or `request-proof` for the app")
                    continue
                }
            }
        }
    }
}
