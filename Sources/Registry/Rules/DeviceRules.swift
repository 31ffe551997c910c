package import Vocabulary

/// The rules of operators' operations. Times are in seconds since 1970-01-01T00:00:00Z.
package enum DeviceRules {
    package typealias Rule = StoreRule<RegistryReply>

    /// Registers an active device, with a binding if a key is given. The counter starts at 0.
    package static func register(_ identity: DeviceIdentity, binding key: KeyID?, at time: Int64) -> Rule {
        var look = StoreLook(.hardwareKey(identity.hardwareKey))
        look.hardwareKey = identity.hardwareKey
        look.bindingKey = key
        return Rule(look: look) { facts throws(StoreError) in
            guard facts.device == nil else { throw .keyRegistered }
            guard !facts.isBindingKeyTaken else { throw .keyBound }
            let device = ExportedDevice(
                identity: identity, registeredAt: time, activatedAt: time,
                // A device of a barred key is registered as revoked. An operator may restore it.
                revokedAt: facts.isHardwareKeyBarred ? time : nil, shown: [], window: CounterWindow(),
                bindings: key.map { [ExportedBinding(key: $0, createdAt: time, endsAt: nil, endedAt: nil)] } ?? [])
            return StoreDecision([.insert(device)], reading: [.hardwareKey(identity.hardwareKey)]) { .device($0[0]) }
        }
    }

    /// Returns a rule for an existing device, whose reply is the device.
    private static func changing(
        _ device: DeviceID, _ writes: @escaping (DeviceDetails, StoreFacts) throws(StoreError) -> [StoreWrite],
        look: StoreLook? = nil
    ) -> Rule {
        var look = look ?? StoreLook()
        look.device = .id(device)
        return Rule(look: look) { facts throws(StoreError) in
            guard let details = facts.device else { throw .deviceUnknown }
            return StoreDecision(try writes(details, facts), reading: [.id(device)]) { .device($0[0]) }
        }
    }

    /// Binds an mTLS key that was never bound to an active device.
    static func bind(_ key: KeyID, to device: DeviceID, at time: Int64) -> Rule {
        var look = StoreLook()
        look.bindingKey = key
        return changing(
            device,
            { details, facts throws(StoreError) in
                switch details.device.state {
                case .revoked: throw .deviceRevoked
                case .pending: throw .devicePending
                case .active: break
                }
                guard !facts.isBindingKeyTaken else { throw .keyBound }
                return [.bind(key, to: device, at: time)]
            }, look: look)
    }

    /// Ends a binding permanently. An ended binding does not change.
    static func endBinding(_ key: KeyID, at time: Int64) -> Rule {
        Rule(look: StoreLook(.binding(key))) { facts throws(StoreError) in
            guard let details = facts.device else { throw .bindingUnknown }
            let id = details.device.id
            let isActive = details.bindings.contains { $0.key == key && $0.isActive }
            return StoreDecision(isActive ? [.endBinding(key, of: id, at: time)] : [], reading: [.id(id)]) {
                .device($0[0])
            }
        }
    }

    /// Revokes a device. A revoked device does not change.
    static func revoke(_ device: DeviceID, at time: Int64) -> Rule {
        changing(device) { details, _ in
            details.device.state == .revoked ? [] : [.revoke(device, at: time)]
        }
    }

    /// Restores a revoked device to its previous state with its counters. There is no other way to undo a revocation.
    static func restore(_ device: DeviceID, at time: Int64) -> Rule {
        changing(device) { _, _ in [.restore(device, at: time)] }
    }

    /// Records the day on which devices were seen, and what they have shown of their apps. A later day stays.
    static func noteSeen(_ seen: SeenDevices) -> Rule {
        let apps = seen.devices.compactMap { device in device.app.map { StoreWrite.keepApp($0, of: device.id) } }
        return Rule(look: StoreLook()) { _ in StoreDecision([.see(seen)] + apps, reply: .noted) }
    }

    /// Allows a pending device to bind its first key. An approved or active device does not change.
    static func approve(_ device: DeviceID, at time: Int64) -> Rule {
        changing(device) { details, _ throws(StoreError) in
            guard details.device.state != .revoked else { throw .deviceRevoked }
            let isAwaited = details.device.state == .pending && details.device.approvedAt == nil
            return isAwaited ? [.approve(device, at: time)] : []
        }
    }

    /// Revokes all devices that were admitted for a person, and bars new ones permanently. The reply has the devices
    /// that were not revoked before.
    static func revokeSubject(_ subject: Fingerprint, at time: Int64) -> Rule {
        var look = StoreLook()
        look.subjects = [subject]
        return Rule(look: look) { facts in
            let devices = facts.devicesOfSubject[subject] ?? []
            let bar = facts.barredSubjects.contains(subject) ? [] : [StoreWrite.barSubject(subject, at: time)]
            return StoreDecision(
                bar + devices.map { .revoke($0, at: time) }, reading: devices.map { .id($0) }
            ) { .revoked($0) }
        }
    }

    /// Draws a fresh epoch, which invalidates all earlier challenges.
    ///
    /// If admission tokens are refused for longer than the lifetime of a token, that time is shortened to one lifetime.
    /// Every used token has expired by then.
    static func renewEpoch(at time: Int64) -> Rule {
        let epoch = RandomID()
        return Rule(look: StoreLook()) { facts in
            let state = facts.state.renewed(epoch, atMost: time + SingleUse.longestTokenLife)
            return StoreDecision([.setState(state)], reply: .identity(state.identity))
        }
    }

    /// Draws the number of a revocation list. It exceeds all earlier ones and is at least the time, so that numbers
    /// grow even after an earlier copy of the store is restored.
    static func drawRevocationListNumber(at time: Int64) -> Rule {
        Rule(look: StoreLook()) { facts in
            var state = facts.state
            state.revocationList = max(state.revocationList + 1, time)
            return StoreDecision([.setState(state)], reply: .revocationListNumber(state.revocationList))
        }
    }
}
