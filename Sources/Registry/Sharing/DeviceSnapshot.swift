internal import Synchronization
public import Vocabulary

/// The view of a registered device for a request. It is trivial, so that threads copy it without a reference count.
public struct DeviceSnapshot: Sendable {
    public let id: DeviceID
    /// The mTLS key of the look-up.
    public let binding: KeyID
    public let app: AppNumber
    public let platform: Platform
    public let environment: AttestationEnvironment
    public let hardwareKey: KeyID
    public let point: PublicPoint
    public let standing: DeviceStatus
    /// The app extensions that the device has shown so far. They are checked again when the counter is spent, because
    /// another request may add to them.
    public let shown: ShownExtensions
    /// The number of keys that were recently attested on the phone, from its newest receipt. Nil if there is none.
    public internal(set) var riskMetric: UInt32?
    /// The system version in the attestation. Nil without an attestation, or if it has none.
    public internal(set) var systemVersion: SystemVersion?
    /// Whether Google has listed a certificate on which the device's keys rest.
    public internal(set) var isKeyListed = false
    /// The number of the device's posture at the look-up. Another posture, or another `isKeyListed`, has another number.
    public package(set) var postureGeneration: UInt32 = 0
    /// The time of the binding, in seconds since 1970-01-01T00:00:00Z. Nil if it is not known.
    var boundAt: Int64?
    /// The index of the device's record at the look-up, as a hint.
    let slot: Int
    /// The last day on which the device was noted as seen.
    var seenDay: Int64 = 0
}

/// Whether a device may be served over a connection with the mTLS key of the look-up.
public enum DeviceStatus: Sendable {
    case active
    case deviceRevoked
    case bindingEnded
}

/// The result of looking up an mTLS key.
public enum DeviceLookup: Sendable {
    case found(DeviceSnapshot)
    /// The key was never bound.
    case unknown
    case storeUnavailable
    /// The key is not in memory. The result follows as an event.
    case pending

    var isPending: Bool {
        if case .pending = self { true } else { false }
    }
}

/// The result of spending a counter value in memory.
public enum CounterAcceptance: Equatable, Sendable {
    /// The value is spent in memory. An event reports whether it is durable.
    case pending
    case replayed
    /// The value is below the window of `highest`, the highest value of the device.
    case late(highest: UInt32)
    case deviceRevoked
    /// The assertion lacks an extension that an earlier one of the key has shown. Nothing was spent.
    case extensionWithheld
    /// Nothing was spent.
    case storeUnavailable

    /// Creates the result from the decision of the device's record.
    init(_ outcome: CounterOutcome) {
        self =
            switch outcome {
            case .committed: .pending
            case .replayed: .replayed
            case .late(let highest): .late(highest: highest)
            case .deviceRevoked: .deviceRevoked
            case .extensionWithheld: .extensionWithheld
            case .bindingEnded, .unknown, .epochChanged, .storeUnavailable: .storeUnavailable
            }
    }
}

/// The number of an app id within one process. Numbers are compared and copied at no cost.
public struct AppNumber: Hashable, Sendable {
    let number: UInt32
}

/// The numbers of app ids in the order of their first use. They are kept for the life of the process, because there are
/// few apps.
final class AppNumbers: Sendable {
    private let numbers = Mutex<[AppID: AppNumber]>([:])

    func number(of app: AppID) -> AppNumber {
        numbers.withLock { numbers in
            if let known = numbers[app] { return known }
            let number = AppNumber(number: UInt32(numbers.count))
            numbers[app] = number
            return number
        }
    }
}
