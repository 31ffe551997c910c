internal import GatewayConfiguration
internal import Registry
internal import Vocabulary

/// Devices of Android, which the gateway cannot verify yet: it knows no proof that such a device could make.
struct AndroidDevices {
    private let routes: [RouteConfiguration]

    init(_ configuration: Configuration) { routes = configuration.routes }

    /// Why a device must not be registered: its app requires proofs on a route.
    ///
    /// - Returns: nil for a device of another platform, or of an app without such a route.
    func refusal(of platform: Platform, app: AppID) -> String? {
        guard platform == .android,
            let route = routes.first(where: { $0.require == .requestProof && $0.apps.contains(app) })
        else { return nil }
        return """
            Android is not supported yet: the gateway cannot verify proofs of this device, and the route \
            `\(route.name)` requires proofs of the app `\(app)`
            """
    }

    /// Says what a registered device of Android can do.
    static let warning = """
        Android is not supported yet: the device can use only routes with `require: device` or `require: certificate`
        """
}
