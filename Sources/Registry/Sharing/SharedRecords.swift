internal import EventLoop
internal import Synchronization
internal import Vocabulary

/// The one record of each device that every worker looks at, and the mTLS keys that lead to it.
///
/// Workers read records and spend counters in them. Only the store's thread puts records in, takes them out or changes
/// anything else, so that a device which it finds without a record has none until it makes one. A record with a write
/// outstanding stays. Bounded; sharded, so that workers seldom meet at a lock; the locks lie in this object itself, as
/// objects of their own would be retained by every worker in turn.
final class SharedRecords: Sendable {
    private struct Record {
        let app: AppNumber
        let identity: SharedIdentity
        var isRevoked: Bool
        var window: CounterWindow
        var shown: ShownExtensions
        var riskMetric: UInt32?
        let systemVersion: SystemVersion?
        /// Values spent here whose outcome the store has not reported yet.
        var outstanding: Int
    }

    /// `DeviceIdentity` without its text.
    private struct SharedIdentity {
        let platform: Platform
        let environment: AttestationEnvironment
        let hardwareKey: KeyID
        let point: PublicPoint
    }

    private struct Link {
        let device: DeviceID
        var isActive: Bool
    }

    private struct Keys {
        var links: ClockCache<KeyID, Link>
        /// Keys that were never bound, until when that is believed. Apart, so that unknown keys, which anyone can make,
        /// push out no known one.
        var unknown: ClockCache<KeyID, Instant>
        /// Keys that nobody may come with: never `active`. Apart as well, so that however many good devices come, those that
        /// were revoked last are known.
        var barred: ClockCache<KeyID, DeviceStatus>
    }

    private static let shards = 16
    private let records: InlineArray<16, Mutex<ClockCache<DeviceID, Record>>>
    private let keys: InlineArray<16, Mutex<Keys>>
    private let apps: AppNumbers

    /// How long a key is held for unknown. A registration in this process is seen at once all the same.
    private static let unknownLife = TimeSpan.seconds(1)

    /// - Parameter limit: how many devices, keys, and keys that are barred, are kept; about 300, 60 and 60 bytes each.
    init(limit: Int, apps: AppNumbers) {
        let each = max(1, limit / Self.shards)
        records = InlineArray { _ in Mutex(ClockCache(limit: each)) }
        keys = InlineArray { _ in
            Mutex(
                Keys(
                    links: ClockCache(limit: each), unknown: ClockCache(limit: each), barred: ClockCache(limit: each)))
        }
        self.apps = apps
    }

    private static func shard(of device: DeviceID) -> Int { Int(truncatingIfNeeded: device.number) & (shards - 1) }
    private static func shard(of key: KeyID) -> Int { key.hashValue & (shards - 1) }

    // MARK: - Any thread

    /// - Returns: `found`, `unknown`, or `pending` if memory does not know.
    func look(up key: KeyID, now: Instant) -> DeviceLookup {
        let link = keys[Self.shard(of: key)].withLock { keys -> Link?? in
            if let link = keys.links.use(key) { return .some(link) }
            if let until = keys.unknown.use(key), now < until { return .some(nil) }
            return nil
        }
        switch link {
        case .none: return .pending
        case .some(.none): return .unknown
        case .some(.some(let link)): return snapshot(link, key).map { .found($0) } ?? .pending
        }
    }

    /// What memory knows of a key, for a check that is never worth a look into the store. With nil the caller
    /// continues; `look` checks the key again later.
    func knownStanding(of key: KeyID) -> DeviceStatus? {
        let known = keys[Self.shard(of: key)].withLock { keys -> (link: Link?, barred: DeviceStatus?) in
            if let barred = keys.barred.use(key) { return (nil, barred) }
            return (keys.links.use(key), nil)
        }
        return known.barred ?? known.link.flatMap { snapshot($0, key)?.standing }
    }

    private func snapshot(_ link: Link, _ key: KeyID) -> DeviceSnapshot? {
        records[Self.shard(of: link.device)].withLock { records in
            guard let slot = records.slot(of: link.device), let record = records.use(link.device) else { return nil }
            return DeviceSnapshot(
                id: link.device, binding: key, app: record.app, platform: record.identity.platform,
                environment: record.identity.environment, hardwareKey: record.identity.hardwareKey,
                point: record.identity.point,
                standing: record.isRevoked ? .deviceRevoked : link.isActive ? .active : .bindingEnded,
                shown: record.shown, riskMetric: record.riskMetric, systemVersion: record.systemVersion, slot: slot)
        }
    }

    /// Spends a value in the device's record, which stays until `complete`.
    ///
    /// - Parameter shown: by the assertion that carries the value. From here on no assertion of the device may show less,
    ///   whichever worker it comes to.
    /// - Returns: `pending` if it is spent now; nil if the device has no record.
    func accept(
        _ counter: UInt32, of device: DeviceID, showing shown: ShownExtensions, mode: CounterMode, hint: Int
    ) -> CounterAcceptance? {
        records[Self.shard(of: device)].withLock { records in
            records.update(device, hint: hint) { record in
                if record.isRevoked { return .deviceRevoked }
                guard shown.isSuperset(of: record.shown) else { return .extensionWithheld }
                switch record.window.accept(counter, mode: mode) {
                case .replayed: return .replayed
                case .late: return .late(highest: record.window.highest)
                case .accepted:
                    record.outstanding += 1
                    record.shown.formUnion(shown)
                    return .pending
                }
            }
        }
    }

    // MARK: - The store's thread

    /// The fate of one accepted value is known.
    func complete(_ device: DeviceID) {
        records[Self.shard(of: device)].withLock { records in
            _ = records.update(device) { $0.outstanding -= 1 }
        }
    }

    /// Makes a record of what the writer knows, unless there is one.
    ///
    /// Goes over the limit where every record of the shard has writes outstanding: these are no more than may wait for the
    /// store, so that is bounded too, and refusing would serve nobody.
    func insert(_ found: FoundDevice, key: KeyID) {
        let app = apps.number(of: found.identity.app)
        records[Self.shard(of: found.id)].withLock { records in
            // Never replaced: the one that is there may hold values that are on their way to the writer.
            if records.slot(of: found.id) != nil { return }
            let identity = SharedIdentity(
                platform: found.identity.platform, environment: found.identity.environment,
                hardwareKey: found.identity.hardwareKey, point: found.identity.point)
            let record = Record(
                app: app, identity: identity, isRevoked: found.isRevoked, window: found.window, shown: found.shown,
                riskMetric: found.riskMetric, systemVersion: found.systemVersion, outstanding: 0)
            records.insert(found.id, record, mayGrow: true) { $0.outstanding > 0 }
        }
        keys[Self.shard(of: key)].withLock { keys in
            keys.unknown.remove(key)
            keys.links.insert(key, Link(device: found.id, isActive: found.isBound))
            if found.isRevoked || !found.isBound {
                keys.barred.insert(key, found.isRevoked ? .deviceRevoked : .bindingEnded)
            }
        }
    }

    func insertUnknown(_ key: KeyID, now: Instant) {
        keys[Self.shard(of: key)].withLock { _ = $0.unknown.insert(key, now + Self.unknownLife) }
    }

    /// Takes over what has become of a device and its bindings.
    func update(_ now: DeviceUpdate) {
        records[Self.shard(of: now.id)].withLock { records in
            _ = records.update(now.id) { record in
                record.isRevoked = now.isRevoked
                // The record may know more, from a request that is on its way to the writer.
                record.shown.formUnion(now.shown)
                record.riskMetric = now.riskMetric
            }
        }
        for (key, isActive) in now.bindings {
            keys[Self.shard(of: key)].withLock { keys in
                keys.unknown.remove(key)
                keys.links.update(key) { $0.isActive = isActive }
                switch isActive {
                case _ where now.isRevoked: keys.barred.insert(key, .deviceRevoked)
                case true: keys.barred.remove(key)
                // Not made known here: a device has ever more of them, and few of their certificates are still good.
                case false: keys.barred.update(key) { $0 = .bindingEnded }
                }
            }
        }
    }

    /// Takes over a value that the writer has spent by itself.
    func spend(_ counter: UInt32, of device: DeviceID) {
        records[Self.shard(of: device)].withLock { records in
            // A request may hold it as outstanding: the writer refuses that one.
            _ = records.update(device) { _ = $0.window.accept(counter, mode: .unspent) }
        }
    }

    /// Takes over what others have spent.
    func merge(_ window: CounterWindow, of device: DeviceID) {
        records[Self.shard(of: device)].withLock { records in
            _ = records.update(device) { $0.window.merge(window) }
        }
    }

    /// The bindings of these keys have ended.
    func end(_ ended: [KeyID]) {
        for key in ended {
            keys[Self.shard(of: key)].withLock { keys in
                keys.links.update(key) { $0.isActive = false }
                if keys.barred.use(key) == nil { keys.barred.insert(key, .bindingEnded) }
            }
        }
    }

    /// Forgets everything but the records with writes outstanding.
    ///
    /// - Returns: the devices of those.
    func forget() -> [DeviceID] {
        var kept: [DeviceID] = []
        for shard in 0..<Self.shards {
            keys[shard].withLock { keys in
                keys.links.removeAll { _ in true }
                keys.unknown.removeAll { _ in true }
                keys.barred.removeAll { _ in true }
            }
            kept += records[shard].withLock { records in
                records.removeAll { $0.outstanding == 0 }
                return records.entries.map(\.key)
            }
        }
        return kept
    }
}
