internal import EventLoop
internal import Vocabulary

/// What the store's thread asks of a store: the contract that every store keeps, and that one suite of tests looks at.
///
/// Used on the thread of the loop it was started on, where everything is answered too: at once, before the call returns, or
/// later. Each question is answered exactly once, whatever happens, within a bounded time. A store that fails refuses
/// everything until it has recovered, by itself. Memory is a floor: what was spent stays so, whatever the store says when it
/// is back.
protocol StoreBackend: AnyObject {
    /// As of the last successful check. `StoreSignal.changes` reports another one.
    var identity: StoreIdentity { get }
    /// Whether operations are possible.
    var isAvailable: Bool { get }
    /// Whether another batch would be begun now. One that is given all the same waits, or is refused if the store has failed.
    var takesBatch: Bool { get }
    /// The same for lookups.
    var takesLookup: Bool { get }

    /// Begins to serve. What was due while nothing ran has ended before this returns, or before anything is answered.
    ///
    /// - Parameters:
    ///   - time: seconds since 1970-01-01T00:00:00Z.
    ///   - signal: called with what nobody asked for.
    func start(on loop: Loop, at time: Int64, signal: @escaping (StoreSignal) -> Void)

    /// Decides each value, and makes those accepted durable. Each is decided on conditions that hold when it is: value unspent,
    /// device active, binding active, epoch current, nothing withheld.
    ///
    /// - Parameter answer: called once for each entry, by its index, in any order.
    func commit(_ entries: [CounterEntry], answer: @escaping (_ entry: Int, CounterOutcome) -> Void)

    /// What workers are to know of the device an mTLS key was bound to: nil if it never was.
    func find(_ key: KeyID, answer: @escaping (Result<FoundDevice?, StoreError>) -> Void)

    /// - Parameter time: seconds since 1970-01-01T00:00:00Z.
    func perform(
        _ command: RegistryCommand, at time: Int64, answer: @escaping (Result<RegistryReply, StoreError>) -> Void)

    /// Comes every half second: the time to confirm the store, or to open it again; to end what is due, to tidy when idle.
    ///
    /// - Parameter time: seconds since 1970-01-01T00:00:00Z.
    func tick(at time: Int64)

    /// Comes when all that waited has been handed over: the time for slices of work that nobody waits for.
    func workOn()

    /// Leaves everything as durable as it can be made. Nothing is asked from here on.
    func finish(_ done: @escaping () -> Void)
}

/// What a store says unasked.
enum StoreSignal {
    /// What memory knows of devices is still true: `changes` would have reported a difference.
    ///
    /// - Parameter at: since when that is known.
    case confirmed(at: Instant)
    /// So many counters became durable in one transaction.
    case committed(Int)
    /// Records are to be changed, in this order.
    case changes([StoreChange])
    /// It failed, for a reason that can be logged; everything is refused.
    case failed(String)
    /// It could not be opened again.
    case cannotReopen(String)
    /// It can be asked again. What memory knew before may not be true any more; `recovered` follows when the present
    /// questions are answered.
    case reopened
    /// It serves again.
    case recovered
    /// There are slices of work left: `workOn` is to come again soon.
    case isWorkLeft
    /// A batch or a lookup would be begun that would have waited before.
    case hasRoom
}

/// What every worker's memory is to take over from the store.
enum StoreChange {
    /// What a device and its bindings are now.
    case device(DeviceUpdate)
    /// These mTLS keys are good for nothing from here on: connections with them are to be closed.
    case barred([KeyID])
    /// These bindings have ended, and connections with them are to be closed.
    case ended([KeyID])
    /// A value that the store has spent by itself.
    case spent(UInt32, of: DeviceID)
    /// What is spent of a device, by whomever.
    case window(CounterWindow, of: DeviceID)
    case identity(StoreIdentity)
}

/// What memory learns of a device that has changed.
struct DeviceUpdate {
    let id: DeviceID
    let isRevoked: Bool
    let shown: ShownExtensions
    let riskMetric: UInt32?
    let bindings: [(key: KeyID, isActive: Bool)]
}

extension DeviceUpdate {
    init(_ details: DeviceDetails) {
        self.init(
            id: details.device.id, isRevoked: details.device.state == .revoked, shown: details.device.shown,
            riskMetric: details.attestation?.riskMetric, bindings: details.bindings.map { ($0.key, $0.isActive) })
    }
}

extension StoreChange {
    /// Changes of an operation, by its reply, for a store with no other writer. Records come first: a worker that must
    /// close connections finds the same in its next lookup.
    static func all(of command: RegistryCommand, _ reply: RegistryReply) -> [StoreChange] {
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
        case (.recordReceipt, .recordedReceipt(.recorded(let details))):
            [.device(DeviceUpdate(details))]
        case (.revokeSubject, .revoked(let devices)):
            devices.map { .device(DeviceUpdate($0)) } + [.barred(devices.flatMap { $0.bindings.map(\.key) })]
        case (.renewEpoch, .identity(let identity)): [.identity(identity)]
        default: []
        }
    }
}

/// A device as the store knows it, found by an mTLS key.
struct FoundDevice {
    let id: DeviceID
    let identity: DeviceIdentity
    let isRevoked: Bool
    /// Whether the binding by which it was found is active.
    let isBound: Bool
    let window: CounterWindow
    let shown: ShownExtensions
    var riskMetric: UInt32?
    var systemVersion: SystemVersion?
}
