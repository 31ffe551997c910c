package import EventLoop
package import Vocabulary

/// The interface between the store's thread and a store. One conformance suite tests all stores.
///
/// A store is used on the thread of the loop that it was started on, and answers there, before the call returns or
/// later. It answers each request exactly once within a bounded time.
///
/// A store that fails refuses everything until it has recovered by itself. Values that are spent in memory stay spent,
/// whatever the store contains after a recovery.
package protocol StoreBackend: AnyObject {
    /// The identity at the last successful check. `StoreSignal.changes` reports a different one.
    var identity: StoreIdentity { get }
    /// Whether operations are possible.
    var isAvailable: Bool { get }
    /// Whether another batch would start now. A batch that is passed anyway waits, or is refused if the store has
    /// failed.
    var takesBatch: Bool { get }
    /// Whether another look-up would start now.
    var takesLookup: Bool { get }

    /// Starts the store. Bindings that were due to end have ended before this returns, or before any answer.
    ///
    /// - Parameters:
    ///   - time: The current time, in seconds since 1970-01-01T00:00:00Z.
    ///   - signal: Receives events that do not answer a request.
    func start(on loop: Loop, at time: Int64, signal: @escaping (StoreSignal) -> Void)

    /// Decides on counter values and makes the accepted ones durable.
    ///
    /// A value is accepted if it is unspent, the device and the binding are active, the epoch is current, and no
    /// extension is withheld. These conditions hold at the time of the decision.
    ///
    /// - Parameter answer: Called once for each entry, by its index, in any order.
    func commit(_ entries: [CounterEntry], answer: @escaping (_ entry: Int, CounterOutcome) -> Void)

    /// Finds the device that an mTLS key was bound to. The answer is nil if the key was never bound.
    func find(_ key: KeyID, answer: @escaping (Result<FoundDevice?, StoreError>) -> Void)

    /// Performs an operation.
    ///
    /// - Parameter time: The current time, in seconds since 1970-01-01T00:00:00Z.
    func perform(
        _ command: RegistryCommand, at time: Int64, answer: @escaping (Result<RegistryReply, StoreError>) -> Void)

    /// Performs periodic work, each half second: confirms or reopens the store, ends due bindings, and cleans up when
    /// idle.
    ///
    /// - Parameter time: The current time, in seconds since 1970-01-01T00:00:00Z.
    func tick(at time: Int64)

    /// Performs a slice of background work. It is called when all waiting requests were passed on.
    func workOn()

    /// Makes everything as durable as possible and closes the store. There are no requests after this call.
    func finish(_ done: @escaping () -> Void)
}

/// An event of a store that does not answer a request.
package enum StoreSignal {
    /// The state of devices in memory was still correct at a time. Otherwise `changes` would have reported the
    /// difference.
    ///
    /// - Parameter at: The time of the check.
    case confirmed(at: Instant)
    /// A number of counters became durable in one transaction.
    case committed(Int)
    /// Records must be changed, in this order.
    case changes([StoreChange])
    /// The store failed and refuses everything. The reason is for logs.
    case failed(String)
    /// The store could not be reopened.
    case cannotReopen(String)
    /// The store was reopened. The state in memory may be outdated, and `recovered` follows when the current requests
    /// are answered.
    case reopened
    /// It serves again.
    case recovered
    /// There is more background work, so `workOn` must be called soon.
    case isWorkLeft
    /// A batch or a look-up would start that would have waited before.
    case hasRoom
}

/// A change of the store that the memory of each worker must apply.
package enum StoreChange {
    /// The current state of a device and its bindings.
    case device(DeviceUpdate)
    /// These mTLS keys are barred. Their connections must be closed.
    case barred([KeyID])
    /// These bindings have ended. Their connections must be closed.
    case ended([KeyID])
    /// A value that the store has spent itself.
    case spent(UInt32, of: DeviceID)
    /// All spent values of a device.
    case window(CounterWindow, of: DeviceID)
    case identity(StoreIdentity)
}

/// The properties of a changed device that workers keep in memory.
package struct DeviceUpdate {
    package let id: DeviceID
    package let isRevoked: Bool
    package let shown: ShownExtensions
    /// Without the time of a binding.
    package let posture: Posture
    /// Whether the device's keys rest on a listed certificate.
    package let isKeyListed: Bool
    package let bindings: [(key: KeyID, isActive: Bool)]

    package init(
        id: DeviceID, isRevoked: Bool, shown: ShownExtensions, posture: Posture, isKeyListed: Bool,
        bindings: [(key: KeyID, isActive: Bool)]
    ) {
        self.id = id
        self.isRevoked = isRevoked
        self.shown = shown
        self.posture = posture
        self.isKeyListed = isKeyListed
        self.bindings = bindings
    }
}

extension DeviceUpdate {
    package init(_ details: DeviceDetails) {
        self.init(
            id: details.device.id, isRevoked: details.device.state == .revoked, shown: details.device.shown,
            posture: Posture(details), isKeyListed: details.attestation?.isKeyListed ?? false,
            bindings: details.bindings.map { ($0.key, $0.isActive) })
    }
}

extension StoreChange {
    /// Returns the changes of an operation, for a store without other writers.
    ///
    /// Updates of records come first, so that a worker that closes connections sees the new state in its next look-up.
    package static func all(of command: RegistryCommand, _ reply: RegistryReply) -> [StoreChange] {
        switch (command, reply) {
        case (.register, .device(let details)), (.bind, .device(let details)), (.restore, .device(let details)),
            (.approve, .device(let details)):
            [.device(DeviceUpdate(details))]
        case (.revoke, .device(let details)):
            [.device(DeviceUpdate(details)), .barred(details.bindings.map(\.key))]
        case (.endBinding(let key), .device(let details)):
            [.device(DeviceUpdate(details)), .ended([key])]
        case (.bindKey(let request), .keyBinding(.bound(let details, _))):
            [.spent(request.counter, of: details.device.id), .device(DeviceUpdate(details))]
        case (.reattest, .reattestation(.renewed(let details))): [.device(DeviceUpdate(details))]
        case (.recordReceipt, .recordedReceipt(.recorded(let details))):
            [.device(DeviceUpdate(details))]
        case (.markListedKeys, .listedKeys(let page)), (.releaseUnlistedKeys, .listedKeys(let page)):
            page.changed.map { .device(DeviceUpdate($0)) }
        case (.revokeSubject, .revoked(let devices)):
            devices.map { .device(DeviceUpdate($0)) } + [.barred(devices.flatMap { $0.bindings.map(\.key) })]
        case (.renewEpoch, .identity(let identity)): [.identity(identity)]
        default: []
        }
    }
}

/// A stored device that was found by an mTLS key.
package struct FoundDevice {
    package let id: DeviceID
    package let identity: DeviceIdentity
    package let isRevoked: Bool
    /// Whether the binding of that key is active.
    package let isBound: Bool
    package let window: CounterWindow
    package let shown: ShownExtensions
    /// With the time of the binding of that key.
    package var posture: Posture
    /// Whether the device's keys rest on a listed certificate.
    package var isKeyListed = false

    package init(
        id: DeviceID, identity: DeviceIdentity, isRevoked: Bool, isBound: Bool, window: CounterWindow,
        shown: ShownExtensions, posture: Posture, isKeyListed: Bool = false
    ) {
        self.id = id
        self.identity = identity
        self.isRevoked = isRevoked
        self.isBound = isBound
        self.window = window
        self.shown = shown
        self.posture = posture
        self.isKeyListed = isKeyListed
    }
}
