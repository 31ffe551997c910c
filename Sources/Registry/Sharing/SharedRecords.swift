internal import EventLoop
internal import Synchronization
internal import Vocabulary

/// The shared records of devices, and the mTLS keys that lead to them.
///
/// Workers read records and spend counters in them. Only the store's thread inserts, removes and otherwise changes
/// records. It can therefore rely on a missing record to stay missing. A record with an outstanding write is not
/// evicted.
///
/// The number of records is bounded. They are sharded, so that workers seldom contend for a lock. Locks are stored
/// inline, because each worker would otherwise retain and release lock objects.
final class SharedRecords: Sendable {
    private struct Record {
        let app: AppNumber
        let identity: SharedIdentity
        var isRevoked: Bool
        var window: CounterWindow
        var shown: ShownExtensions
        /// Without the time of a binding, which the link of its key has.
        var posture: Posture
        /// The number of the posture and `isKeyListed`.
        var postureGeneration: UInt32
        var isKeyListed: Bool
        /// The last day on which the device was noted as seen, in days since 1970; 0 for none.
        var seenDay: Int64 = 0
        /// The number of values that were spent here and whose outcome the store has not reported yet.
        var outstanding: Int

        /// The part of the posture that assertions show.
        var shownApp: ShownApp {
            get { ShownApp(version: posture.app, distribution: posture.distribution) }
            set { (posture.app, posture.distribution) = (newValue.version, newValue.distribution) }
        }
    }

    /// The parts of `DeviceIdentity` without text. The posture has the others.
    private struct SharedIdentity {
        let hardwareKey: KeyID
        let point: PublicPoint
    }

    private struct Link {
        let device: DeviceID
        /// The time of the binding, in seconds since 1970-01-01T00:00:00Z. Nil if it is not known.
        let boundAt: Int64?
        var isActive: Bool
    }

    private struct Keys {
        var links: ClockCache<KeyID, Link>
        /// Keys that were never bound, with the expiry of that knowledge. They are separate because anyone can make
        /// unknown keys, which must not evict known ones.
        var unknown: ClockCache<KeyID, Instant>
        /// Keys that must be refused, with their status, which is never `active`. They are separate so that active
        /// devices do not evict the keys that were revoked last.
        var barred: ClockCache<KeyID, DeviceStatus>
    }

    private static let shards = 16
    private let records: InlineArray<16, Mutex<ClockCache<DeviceID, Record>>>
    private let keys: InlineArray<16, Mutex<Keys>>
    private let apps: AppNumbers
    /// The present day in days since 1970-01-01 UTC, as the store's thread sets it. Workers read no clock for it.
    private let today = Atomic<Int64>(0)
    /// The devices that were seen today for the first time, or have shown another app, and are not written yet, oldest
    /// first.
    private let seen = Mutex<[SeenDevice]>([])
    /// The number of the latest posture. All devices share the numbers, so that a record that was evicted has another
    /// one when it is back.
    private let generations = Atomic<UInt32>(0)

    /// Limit of entries in `seen`. Others are noted with a later request.
    private static let seenLimit = 65_536
    /// The time for which a key is remembered as unknown. A registration in this process removes it at once.
    private static let unknownLife = TimeSpan.seconds(1)

    /// Creates empty records.
    ///
    /// - Parameter limit: The maximum number of devices, of keys and of barred keys. They take about 400, 70 and 60
    ///   bytes each.
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
    private static func shard(of key: KeyID) -> Int { Int(truncatingIfNeeded: key.prefix) & (shards - 1) }

    // MARK: - Any thread

    /// Looks up an mTLS key.
    ///
    /// - Returns: `found`, `unknown`, or `pending` if the key is not in memory.
    func look(up key: KeyID, now: Instant) -> DeviceLookup {
        let link = keys[Self.shard(of: key)].withLock { keys -> Link?? in
            if let link = keys.links.use(key) { return .some(link) }
            if let until = keys.unknown.use(key), now < until { return .some(nil) }
            return nil
        }
        switch link {
        case .none: return .pending
        case .some(.none): return .unknown
        case .some(.some(let link)):
            guard let device = snapshot(link, key) else { return .pending }
            noteSeen(device)
            return .found(device)
        }
    }

    /// Returns the status of a key if it is in memory, without asking the store. After nil the caller continues,
    /// because `look` checks the key again later.
    func knownStanding(of key: KeyID) -> DeviceStatus? {
        let known = keys[Self.shard(of: key)].withLock { keys -> (link: Link?, barred: DeviceStatus?) in
            if let barred = keys.barred.use(key) { return (nil, barred) }
            return (keys.links.use(key), nil)
        }
        return known.barred ?? known.link.flatMap { snapshot($0, key)?.standing }
    }

    private func snapshot(_ link: Link, _ key: KeyID) -> DeviceSnapshot? {
        records[Self.shard(of: link.device)].withLock { records in
            guard let slot = records.slot(of: link.device) else { return nil }
            return records.update(link.device, hint: slot) { record in
                DeviceSnapshot(
                    id: link.device, binding: key, app: record.app, platform: record.posture.platform,
                    environment: record.posture.environment, hardwareKey: record.identity.hardwareKey,
                    point: record.identity.point,
                    standing: record.isRevoked ? .deviceRevoked : link.isActive ? .active : .bindingEnded,
                    shown: record.shown, riskMetric: record.posture.risk, systemVersion: record.posture.system,
                    isKeyListed: record.isKeyListed, postureGeneration: record.postureGeneration,
                    boundAt: link.boundAt, slot: slot, seenDay: record.seenDay)
            }
        }
    }

    /// Returns the present posture of a device, and its number.
    ///
    /// - Returns: nil if the device's record was evicted since the look-up.
    func posture(of device: DeviceSnapshot) -> (posture: Posture, generation: UInt32)? {
        let found = records[Self.shard(of: device.id)].withLock { records in
            records.update(device.id, hint: device.slot) { (posture: $0.posture, generation: $0.postureGeneration) }
        }
        guard var found else { return nil }
        found.posture.boundAt = device.boundAt
        return found
    }

    /// Notes that an active device was seen, once a day.
    private func noteSeen(_ device: DeviceSnapshot) {
        let today = today.load(ordering: .relaxed)
        guard device.seenDay != today, case .active = device.standing, take(SeenDevice(device.id)) else { return }
        records[Self.shard(of: device.id)].withLock { records in
            _ = records.update(device.id, hint: device.slot) { $0.seenDay = today }
        }
    }

    /// Notes what a verified assertion shows of a device's app on Apple's systems.
    ///
    /// The record has it at once. The store writes it within seconds. An assertion that shows nothing changes nothing.
    func note(_ app: ShownApp, of device: DeviceSnapshot) {
        guard !app.isEmpty, device.platform != .android else { return }
        let isNew = records[Self.shard(of: device.id)].withLock { records in
            records.update(device.id, hint: device.slot) { $0.shownApp != app }
        }
        guard isNew == true else { return }
        // Without room only the store does not learn it, until the next change or restart.
        _ = take(SeenDevice(device.id, app: app))
        let generation = nextGeneration()
        records[Self.shard(of: device.id)].withLock { records in
            _ = records.update(device.id, hint: device.slot) { record in
                record.shownApp = app
                record.postureGeneration = generation
            }
        }
    }

    /// Adds an entry to `seen`.
    ///
    /// - Returns: Whether there was room.
    private func take(_ device: SeenDevice) -> Bool {
        seen.withLock { seen in
            guard seen.count < Self.seenLimit else { return false }
            seen.append(device)
            return true
        }
    }

    private func nextGeneration() -> UInt32 { generations.wrappingAdd(1, ordering: .relaxed).newValue }

    /// Spends a value in the device's record. The record is kept until `complete`.
    ///
    /// - Parameter shown: The extensions in the assertion that carries the value. Later assertions of the device must
    ///   show at least these, on any worker.
    /// - Returns: `committed` if the value is spent here. Nil if the device has no record.
    func accept(
        _ counter: UInt32, of device: DeviceID, showing shown: ShownExtensions, mode: CounterMode, hint: Int
    ) -> CounterOutcome? {
        records[Self.shard(of: device)].withLock { records in
            records.update(device, hint: hint) { record in
                let outcome = record.window.spend(
                    counter, mode: mode, showing: shown, after: &record.shown, isRevoked: record.isRevoked)
                if case .committed = outcome { record.outstanding += 1 }
                return outcome
            }
        }
    }

    // MARK: - The store's thread

    /// Sets the present day.
    ///
    /// - Parameter day: In days since 1970-01-01 UTC.
    func begin(day: Int64) { today.store(day, ordering: .relaxed) }

    /// Takes devices that were seen and are not written yet, at most `limit`.
    func takeSeen(_ limit: Int) -> [SeenDevice] {
        seen.withLock { seen in
            let taken = Array(seen.prefix(limit))
            seen.removeFirst(taken.count)
            return taken
        }
    }

    /// Returns devices that could not be written.
    func giveBackSeen(_ devices: [SeenDevice]) {
        seen.withLock { $0.insert(contentsOf: devices.suffix(max(0, Self.seenLimit - $0.count)), at: 0) }
    }

    /// Records that the outcome of one accepted value is known.
    func complete(_ device: DeviceID) {
        records[Self.shard(of: device)].withLock { records in
            _ = records.update(device) { $0.outstanding -= 1 }
        }
    }

    /// Inserts a record for a device that the store found, unless there is one.
    ///
    /// The limit is exceeded if all records of the shard have outstanding writes. The excess is bounded by the number
    /// of counters that may wait for the store.
    func insert(_ found: FoundDevice, key: KeyID) {
        let app = apps.number(of: found.identity.app)
        records[Self.shard(of: found.id)].withLock { records in
            // The existing record may hold values that are on their way to the store.
            if records.slot(of: found.id) != nil { return }
            let identity = SharedIdentity(
                hardwareKey: found.identity.hardwareKey, point: found.identity.point)
            var record = Record(
                app: app, identity: identity, isRevoked: found.isRevoked, window: found.window, shown: found.shown,
                posture: found.posture, postureGeneration: nextGeneration(), isKeyListed: found.isKeyListed,
                outstanding: 0)
            record.posture.boundAt = nil
            records.insert(found.id, record, mayGrow: true) { $0.outstanding > 0 }
        }
        keys[Self.shard(of: key)].withLock { keys in
            keys.unknown.remove(key)
            keys.links.insert(
                key, Link(device: found.id, boundAt: found.posture.boundAt, isActive: found.isBound))
            if found.isRevoked || !found.isBound {
                keys.barred.insert(key, found.isRevoked ? .deviceRevoked : .bindingEnded)
            }
        }
    }

    func insertUnknown(_ key: KeyID, now: Instant) {
        keys[Self.shard(of: key)].withLock { _ = $0.unknown.insert(key, now + Self.unknownLife) }
    }

    /// Applies changes of a device and its bindings.
    func update(_ now: DeviceUpdate) {
        records[Self.shard(of: now.id)].withLock { records in
            _ = records.update(now.id) { record in
                record.isRevoked = now.isRevoked
                // The record may have more extensions, from a request on its way to the store.
                record.shown.formUnion(now.shown)
                guard record.posture != now.posture || record.isKeyListed != now.isKeyListed else { return }
                record.posture = now.posture
                record.isKeyListed = now.isKeyListed
                record.postureGeneration = nextGeneration()
            }
        }
        for (key, isActive) in now.bindings {
            keys[Self.shard(of: key)].withLock { keys in
                keys.unknown.remove(key)
                keys.links.update(key) { $0.isActive = isActive }
                switch isActive {
                case _ where now.isRevoked: keys.barred.insert(key, .deviceRevoked)
                case true: keys.barred.remove(key)
                // An ended binding is not added, because a device accumulates them and few of their certificates are
                // still valid.
                case false: keys.barred.update(key) { $0 = .bindingEnded }
                }
            }
        }
    }

    /// Spends a value that the store has spent itself.
    func spend(_ counter: UInt32, of device: DeviceID) {
        records[Self.shard(of: device)].withLock { records in
            // If a request holds the value as outstanding, the store refuses that request.
            _ = records.update(device) { _ = $0.window.accept(counter, mode: .unspent) }
        }
    }

    /// Adds values that other processes have spent.
    func merge(_ window: CounterWindow, of device: DeviceID) {
        records[Self.shard(of: device)].withLock { records in
            _ = records.update(device) { $0.window.merge(window) }
        }
    }

    /// Marks the bindings of these keys as ended.
    func end(_ ended: [KeyID]) {
        for key in ended {
            keys[Self.shard(of: key)].withLock { keys in
                keys.links.update(key) { $0.isActive = false }
                if keys.barred.use(key) == nil { keys.barred.insert(key, .bindingEnded) }
            }
        }
    }

    /// Removes everything except records with outstanding writes.
    ///
    /// - Returns: The devices of the remaining records.
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
