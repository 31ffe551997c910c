internal import Vocabulary

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
