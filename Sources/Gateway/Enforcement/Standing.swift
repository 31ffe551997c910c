internal import Policy
internal import Registry
internal import Vocabulary

/// What a client may do on a route, by what the registry says of its certificate's key: the first half of the decision,
/// before any proof is looked at.
enum Standing {
    /// Goes on by its certificate alone: the route asks for no more.
    case certificate
    /// Goes on as this device, of the app at this place of the configuration.
    case device(DeviceSnapshot, app: Int)
    case refused(Refusal)

    /// What the configuration says of a device's app.
    struct App {
        let place: Int
        let environment: AttestationEnvironment
        /// The highest risk metric that is admitted; nil for every one.
        let maximumRisk: UInt32?
    }

    /// - Parameters:
    ///   - lookup: of the certificate's key; never `pending`.
    ///   - isSelfSigned: whether nobody vouches for that key but the registry. Then it must be bound, at every level.
    ///   - app: that of the device; nil if it is not configured.
    init(
        _ lookup: DeviceLookup, isSelfSigned: Bool, on requirement: Requirement, admitting apps: AppSet,
        app: (DeviceSnapshot) -> App?
    ) {
        switch lookup {
        case .pending: preconditionFailure("decided before the registry had answered")
        case .storeUnavailable:
            // On a route for certificates too: a revocation may have been missed.
            self = .refused(Refusal(.storeUnavailable, "the registry does not answer"))
        case .unknown where isSelfSigned:
            self = .refused(Refusal(.deviceUnknown, "the certificate is self-signed, and its key bound to no device"))
        case .unknown:
            self = requirement == .certificate ? .certificate : .refused(Refusal(.deviceUnknown))
        case .found(let device):
            switch device.standing {
            case .deviceRevoked: self = .refused(Refusal(.deviceRevoked))
            case .bindingEnded:
                self = .refused(Refusal(.deviceMismatch, "the binding of the certificate's key has ended"))
            // Compared with every request, so that another ceiling is for all devices at once.
            case .active where Self.isTooRisky(device, app):
                self = .refused(
                    Refusal(.deviceRisky, "its risk metric is \(device.riskMetric ?? 0), and `maximum_risk` is less"))
            case .active where requirement == .certificate: self = .certificate
            case .active:
                guard let app = app(device) else {
                    self = .refused(Refusal(.appRefused, "the device's app is not configured"))
                    return
                }
                guard app.environment == device.environment else {
                    self = .refused(
                        Refusal(.appRefused, "the device was attested for the environment \(device.environment)"))
                    return
                }
                self = apps.contains(app.place) ? .device(device, app: app.place) : .refused(Refusal(.appRefused))
            }
        }
    }

    /// At every level, as a revoked device is refused. Most devices have no metric: nothing is looked for then.
    private static func isTooRisky(_ device: DeviceSnapshot, _ app: (DeviceSnapshot) -> App?) -> Bool {
        guard let risk = device.riskMetric, let ceiling = app(device)?.maximumRisk else { return false }
        return risk > ceiling
    }
}
