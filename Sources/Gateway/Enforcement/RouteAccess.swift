internal import Attestation
internal import Policy
internal import Registry
internal import Vocabulary

/// The access of a client to a route by the registry's answer about its certificate's key: the first half of the
/// decision, before any proof is read.
enum RouteAccess {
    /// Forwarded with its certificate alone, or without one, which is all that the route requires.
    case certificate
    /// Forwarded as the device of the answer, of the app at this index of the configuration.
    case device(app: Int)
    case refused(Refusal)

    /// The settings of a device's app.
    struct App {
        let place: Int
        let environment: AttestationEnvironment
        /// The highest risk metric admitted; nil for any.
        let maximumRisk: UInt32?
        /// The lowest system version admitted; nil for any.
        let minimumSystem: AppExtensionPolicy.MinimumSystem?

        /// Returns why the device is refused on every route, or nil. Compared with every request, so that a changed
        /// setting applies to all devices immediately.
        fileprivate func refusal(of device: DeviceSnapshot) -> Refusal? {
            if device.isKeyListed {
                return Refusal(.deviceRisky, "Google has revoked a certificate that attests its key")
            }
            if let maximumRisk, let risk = device.riskMetric, risk > maximumRisk {
                return Refusal(.deviceRisky, "its risk metric \(risk) is above `maximum_risk`")
            }
            guard let minimumSystem, minimumSystem.refusal(of: device.systemVersion) != nil else { return nil }
            guard let version = device.systemVersion else {
                return Refusal(
                    .osOutdated, "its attestation states no system version, which `absent_extensions` refuses")
            }
            return Refusal(.osOutdated, "its system version \(version) is below `minimum_os`")
        }
    }

    /// Decides the access.
    ///
    /// - Parameters:
    ///   - lookup: The registry's answer; never `pending`.
    ///   - isSelfSigned: Whether only the registry can vouch for the key. Then it must be bound, whatever the route
    ///     requires.
    ///   - app: Returns the app of the device; nil if it is not configured.
    init(
        _ lookup: DeviceLookup, isSelfSigned: Bool, on requirement: Requirement, admitting apps: AppSet,
        app: (DeviceSnapshot) -> App?
    ) {
        switch lookup {
        case .pending: preconditionFailure("decided before the registry answered")
        case .storeUnavailable:
            // Also on a route for certificates: a revocation may have been missed.
            self = .refused(Refusal(.storeUnavailable, "the registry does not answer"))
        case .unknown where isSelfSigned:
            self = .refused(
                Refusal(.deviceUnknown, "the certificate is self-signed, and its key is not bound to a device"))
        case .unknown:
            self = requirement.includesDevice ? .refused(Refusal(.deviceUnknown)) : .certificate
        case .found(let device):
            switch device.standing {
            case .deviceRevoked: self = .refused(Refusal(.deviceRevoked))
            case .bindingEnded:
                self = .refused(Refusal(.deviceMismatch, "the binding of the certificate's key has ended"))
            case .active:
                let app = app(device)
                if let refusal = app?.refusal(of: device) {
                    self = .refused(refusal)
                    return
                }
                guard requirement.includesDevice else {
                    self = .certificate
                    return
                }
                guard let app else {
                    self = .refused(Refusal(.appRefused, "the device's app is not configured"))
                    return
                }
                guard app.environment == device.environment else {
                    self = .refused(
                        Refusal(.appRefused, "the device was attested for the environment \(device.environment)"))
                    return
                }
                self = apps.contains(app.place) ? .device(app: app.place) : .refused(Refusal(.appRefused))
            }
        }
    }
}

extension RouteAccess.App {
    init(_ app: AdmittedApp, at place: Int) {
        self.init(
            place: place, environment: app.environment, maximumRisk: app.maximumRisk,
            minimumSystem: app.extensions.minimumSystem)
    }
}
