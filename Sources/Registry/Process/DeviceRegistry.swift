package import EventLoop
internal import Glibc
internal import Synchronization
public import Vocabulary

/// The registry of a running process: a store, the thread that uses it, and the records that all workers share.
///
/// Each worker uses it through a `RegistryClient`. Only `start`, `stop` and `release` block.
public final class DeviceRegistry: Sendable {
    let shared: RegistryShared
    private let thread: LoopThread
    private let clients = Atomic<Int>(0)
    private let journalHealth: JournalHealth?
    /// Whether other processes may use the store at the same time, and draw epochs.
    private let isShared: Bool

    /// The store as it was opened. `RegistryEvent.identity` reports a later epoch.
    public let identity: StoreIdentity

    /// Starts the thread of an opened store.
    ///
    /// - Parameters:
    ///   - journal: The health of the store's revocation journal. Nil without a journal.
    ///   - observe: Called on the store's thread when the store fails and recovers.
    package init(
        _ store: sending any StoreBackend, journal: JournalHealth?, isShared: Bool = false, limits: RegistryLimits,
        observe: @escaping @Sendable (StoreEvent) -> Void
    ) throws(EventLoopError) {
        journalHealth = journal
        self.isShared = isShared
        identity = store.identity
        let shared = try RegistryShared(limits: limits, epoch: identity.epoch)
        if journal?.hasDrawnEpoch == true {
            shared.epochChange.store(WallClock.seconds, ordering: .relaxed)
        }
        self.shared = shared
        let handover = Handover(store)
        thread = try LoopThread(name: "store") {
            Self.make(handover, shared, observe)?.run()
        }
    }

    /// Makes the object of the store's thread, which alone refers to the store then: a released store ends when that
    /// object drops it.
    private static func make(
        _ handover: Handover, _ shared: RegistryShared, _ observe: @escaping @Sendable (StoreEvent) -> Void
    ) -> StoreThread? {
        guard let store = handover.take() else { preconditionFailure("a store's thread runs once") }
        // Without a loop there are no answers, so every worker refuses after five seconds.
        guard let loop = try? Loop() else {
            observe(.failed("out of memory: the store's event loop"))
            return nil
        }
        return StoreThread(store: store, loop: loop, shared: shared, observe: observe)
    }

    /// Commits pending requests, closes the store, and waits for that.
    public func stop() {
        while !shared.requests.post(.stop) { usleep(1_000) }
        thread.join()
    }

    /// Commits pending requests, closes the store, and waits for that. From then on look-ups and revocations come from
    /// the process that opens it, through a socket, and no counters are taken.
    ///
    /// - Parameter descriptor: A socket of a pair (`SOCK_SEQPACKET`), owned by the registry from now on.
    public func release(asking descriptor: Int32) {
        while !shared.requests.post(.release(asking: descriptor)) { usleep(1_000) }
        while !shared.isReleased.load(ordering: .acquiring) { usleep(1_000) }
    }

    /// Answers a process that has released its store to this one, until one of them ends.
    ///
    /// - Parameter descriptor: The other socket of that pair, owned by the registry from now on.
    public func answer(on descriptor: Int32) {
        while !shared.requests.post(.answer(descriptor)) { usleep(1_000) }
    }

    /// Returns the number of an app in snapshots of this process.
    public func number(of app: AppID) -> AppNumber { shared.apps.number(of: app) }

    /// Returns the status of the device that an mTLS key is or was bound to, if it is in memory.
    ///
    /// Revocations, ends of bindings and results of look-ups are in memory as long as there is room. The look-up of a
    /// request finds the others. This is for handshakes: it takes about 0.1 us and does not block.
    public func knownStanding(of key: KeyID) -> DeviceStatus? { shared.records.knownStanding(of: key) }

    public var metrics: RegistryMetrics { shared.counts.metrics }

    /// Whether counters are expected to become durable, according to the store's thread.
    public var isAvailable: Bool { shared.health.takesCounters(.now) }

    /// The reason why counters are not expected to become durable, with its start. Nil if they are.
    public var trouble: StoreOutage? {
        guard !isAvailable else { return nil }
        if let trouble = shared.trouble.withLock(\.self) { return trouble }
        // The thread waits for a disk, or for a database before its timeout.
        let silence = shared.health.silence(.now).nanoseconds / 1_000_000_000
        return StoreOutage(
            reason: "the store does not respond: its disk or the connection to its database hangs",
            since: WallClock.seconds - silence)
    }

    /// Whether all revocations are in the revocation journal. Nil without a journal.
    public var isJournalComplete: Bool? { journalHealth?.isComplete }

    /// When all earlier challenges began to be refused, in seconds since 1970; nil if that was not since this process
    /// began, or only because it began.
    public var epochChangedAt: Int64? {
        let time = shared.epochChange.load(ordering: .relaxed)
        return time == 0 ? nil : time
    }

    /// Whether this epoch is known to be the store's now: of a store that others use too, only while it answers.
    public func isCurrent(_ epoch: RandomID) -> Bool {
        guard isShared else { return true }
        return shared.health.takesCounters(.now) && shared.health.silence(.now) < Self.epochPatience
            && shared.epoch.withLock { $0 == epoch }
    }

    /// Twice the time between two confirmations.
    private static let epochPatience = TimeSpan.seconds(1)

    /// Whether a process, this one or another, holds the store in a file now.
    public static func isHeld(path: String) -> Bool { StoreLock.isHeld(path: path) }

    func newClient() -> ClientNumber {
        ClientNumber(number: clients.add(1, ordering: .relaxed).newValue)
    }
}

/// A store that is passed from the thread that opened it to the one that uses it.
private final class Handover: Sendable {
    private let store: Mutex<(any StoreBackend)?>

    init(_ store: sending any StoreBackend) {
        self.store = Mutex(store)
    }

    func take() -> sending (any StoreBackend)? {
        store.withLock { store in
            let taken = store
            store = nil
            return taken
        }
    }
}

/// The completeness of the revocation journal, for other threads.
package final class JournalHealth: Sendable {
    private let complete = Atomic<Bool>(true)
    private let drawn = Atomic<Bool>(false)

    package init() {}

    package var isComplete: Bool {
        get { complete.load(ordering: .relaxed) }
        set { complete.store(newValue, ordering: .relaxed) }
    }

    /// Whether a fresh epoch was drawn when the store was opened.
    package var hasDrawnEpoch: Bool {
        get { drawn.load(ordering: .relaxed) }
        set { drawn.store(newValue, ordering: .relaxed) }
    }
}
