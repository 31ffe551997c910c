internal import Synchronization
public import Vocabulary

/// A registered device as a request sees it. Trivial: copied between threads without a reference count.
public struct DeviceSnapshot: Sendable {
    public let id: DeviceID
    /// The mTLS key it was looked up by.
    public let binding: KeyID
    public let app: AppNumber
    public let platform: Platform
    public let environment: AttestationEnvironment
    public let hardwareKey: KeyID
    public let point: PublicPoint
    public let standing: DeviceStatus
    /// What it has shown so far. Another request may add to it meanwhile, so it is looked at again when the counter is
    /// spent.
    public let shown: ShownExtensions
    /// How many keys were attested on the phone lately, by its newest receipt; nil if none says.
    public internal(set) var riskMetric: UInt32?
    /// The system version that its attestation states; nil if it states none, or there is no attestation.
    public internal(set) var systemVersion: SystemVersion?
    /// Where its record lay, to come back to without a search. Only a hint.
    let slot: Int
}

/// Whether a device may be served over a connection with the mTLS key it was looked up by.
public enum DeviceStatus: Sendable {
    case active
    case deviceRevoked
    case bindingEnded
}

/// What is known of an mTLS key.
public enum DeviceLookup: Sendable {
    case found(DeviceSnapshot)
    /// The key was never bound.
    case unknown
    case storeUnavailable
    /// Not in memory: the answer is under way, as an event.
    case pending
}

/// What the shared record says to a counter value.
public enum CounterAcceptance: Equatable, Sendable {
    /// Spent in memory; whether it is durable follows, as an event.
    case pending
    case replayed
    /// - highest: that the device has used.
    case late(highest: UInt32)
    case deviceRevoked
    /// The key has shown an extension that the assertion lacks. Nothing was spent.
    case extensionWithheld
    /// Nothing was spent.
    case storeUnavailable
}

/// An app id as one process numbers them, so that comparing two costs nothing and copies no text.
public struct AppNumber: Hashable, Sendable {
    let number: UInt32
}

/// The numbers of app ids, in the order they were first seen. They stay for the life of the process; operators register
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
