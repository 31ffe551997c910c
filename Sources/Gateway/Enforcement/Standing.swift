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

    /// - Parameters:
    ///   - lookup: of the certificate's key; never `pending`.
    ///   - isSelfSigned: whether nobody vouches for that key but the registry. Then it must be bound, at every level.
    ///   - app: the place and environment of the device's app in the configuration; nil if it has none.
    init(
        _ lookup: DeviceLookup, isSelfSigned: Bool, on requirement: Requirement, admitting apps: AppSet,
        app: (DeviceSnapshot) -> (place: Int, environment: AttestationEnvironment)?
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
}
