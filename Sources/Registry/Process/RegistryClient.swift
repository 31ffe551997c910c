public import EventLoop
internal import Synchronization
public import Vocabulary

/// The access of one worker to the registry. It is used on the worker's thread and never blocks.
///
/// After it is deinitialized, no more events arrive. Earlier requests are still performed.
public final class RegistryClient {
    private let shared: RegistryShared
    private let number: ClientNumber
    private let loop: Loop
    private let commandLimit: Int
    private let receiver: MailboxReceiver<[RegistryEvent]>
    /// Values that were spent in this turn of the loop and are not sent to the store yet.
    private var gathered: [SpendRequest] = []
    private var gatheredSince = Instant(nanoseconds: 0)
    /// Whether `turnEnds` is scheduled.
    private var awaitsTurnEnd = false
    /// The action for the end of a turn. It is created once and not for each batch.
    private lazy var turnEndAction: () -> Void = { [weak self] in self?.turnEnds() }

    /// The limit of gathered values. While many proofs wait for verification, the first must not wait for the last.
    private static let gatheredLimit = 64
    private static let gatheringTime = TimeSpan.milliseconds(1)

    /// Connects a worker.
    ///
    /// - Parameters:
    ///   - commandLimit: The number of waiting commands of all clients from which commands of this client are refused.
    ///   - receive: Receives events on the loop's thread.
    public init(
        _ registry: DeviceRegistry, loop: Loop, commandLimit: Int = RegistryLimits.waitingCommands,
        receive: @escaping (RegistryEvent) -> Void
    ) throws(EventLoopError) {
        self.commandLimit = min(commandLimit, RegistryLimits.waitingCommands)
        shared = registry.shared
        number = registry.newClient()
        self.loop = loop
        // The mailbox never refuses, because an answer or a revocation must not be lost. Pending requests and the rate
        // of revocations bound it.
        let events = try Mailbox<[RegistryEvent]>(limit: .max)
        receiver = MailboxReceiver(loop: loop, mailbox: events) { events in
            for event in events { receive(event) }
        }
        guard shared.requests.post(.attach(number, events)) else { throw .outOfMemory }
    }

    deinit {
        handOver()
        // If the request mailbox is full, the process is ending, and the unused mailbox does no harm.
        shared.requests.post(.detach(number))
    }

    /// Looks up the device that an mTLS key is bound to.
    ///
    /// - Parameter token: Returned with `RegistryEvent.device` if the answer is `pending`. It is not evaluated
    ///   otherwise.
    public func device(forBinding key: KeyID, token: @autoclosure () -> UInt64) -> DeviceLookup {
        guard shared.health.isFresh(loop.now) else { return .storeUnavailable }
        let known = shared.records.look(up: key, now: loop.now)
        guard case .pending = known else { return known }
        guard Self.enter(shared.counts.looking, limit: shared.limits.waitingLookups) else {
            shared.counts.overflows.add(1, ordering: .relaxed)
            return .storeUnavailable
        }
        // The mailbox has room for each request that `enter` has admitted.
        shared.requests.post(.look(key, Reference(client: number, token: token())))
        return .pending
    }

    /// Returns the present posture of a device, and its number: the one of the snapshot, unless it has changed since.
    ///
    /// - Returns: nil if the device's record was evicted since the look-up.
    public func posture(of device: DeviceSnapshot) -> (posture: Posture, generation: UInt32)? {
        shared.records.posture(of: device)
    }

    /// Notes what a verified assertion shows of a device's app on Apple's systems: at once in memory, and in the store
    /// within seconds.
    ///
    /// - Parameters:
    ///   - app: The bundle version. Nil if it is not shown or has another form.
    ///   - distribution: The validation category. Nil if it is not shown. If both are nil, nothing changes.
    public func note(_ app: AppVersion?, _ distribution: UInt8?, of device: DeviceSnapshot) {
        shared.records.note(ShownApp(version: app, distribution: distribution), of: device)
    }

    /// Spends a counter value in memory at once, and durably as soon as possible.
    ///
    /// The signature over the value must be verified before. The call must not be repeated for a request.
    ///
    /// - Parameters:
    ///   - shown: The extensions in the assertion that carries the value. They are stored with it.
    ///   - epoch: The epoch of the challenge in the proof.
    ///   - token: Returned with `RegistryEvent.counter` if the answer is `pending`.
    public func spend(
        _ counter: UInt32, of device: DeviceSnapshot, showing shown: ShownExtensions, mode: CounterMode,
        epoch: RandomID, token: UInt64
    ) -> CounterAcceptance {
        guard shared.health.takesCounters(loop.now) else { return .storeUnavailable }
        // A place in the queue is taken first, because a value that cannot wait for the store must not be spent.
        guard Self.enter(shared.counts.waiting, limit: shared.limits.waitingCounters) else {
            shared.counts.overflows.add(1, ordering: .relaxed)
            return .storeUnavailable
        }
        let outcome = shared.records.accept(
            counter, of: device.id, showing: shown, mode: mode, hint: device.slot)
        if let outcome, outcome != .committed {
            shared.counts.waiting.subtract(1, ordering: .relaxed)
            return CounterAcceptance(outcome)
        }
        let entry = CounterEntry(
            device: device.id, binding: device.binding, counter: counter, epoch: epoch, shown: shown,
            mode: outcome == nil ? mode : .unspent)
        let reference = Reference(client: number, token: token)
        gather(SpendRequest(entry: entry, reference: reference, isAccepted: outcome != nil))
        return .pending
    }

    /// Gathers values that are spent in one turn of the loop, and those that follow while the loop has more proofs to
    /// verify.
    ///
    /// A message may wake the store's thread, and a commit has a fixed cost, so fewer of both are better.
    private func gather(_ request: SpendRequest) {
        gathered.append(request)
        if gathered.count == 1 { gatheredSince = loop.now }
        if gathered.count >= Self.gatheredLimit || loop.now - gatheredSince >= Self.gatheringTime { return handOver() }
        awaitTurnEnd()
    }

    private func awaitTurnEnd() {
        guard !awaitsTurnEnd else { return }
        awaitsTurnEnd = true
        loop.whenTurnEnds(turnEndAction)
    }

    private func turnEnds() {
        awaitsTurnEnd = false
        guard !gathered.isEmpty else { return }
        if loop.isWorkLeft, .now - gatheredSince < Self.gatheringTime { awaitTurnEnd() } else { handOver() }
    }

    private func handOver() {
        guard !gathered.isEmpty else { return }
        shared.requests.post(.spend(gathered))
        gathered.removeAll(keepingCapacity: true)
    }

    /// Sends an operation to the store.
    ///
    /// - Returns: false if too many operations wait, and this one is not performed. Otherwise `RegistryEvent.reply`
    ///   follows.
    public func perform(_ command: RegistryCommand, token: UInt64) -> Bool {
        guard Self.enter(shared.counts.commanding, limit: commandLimit) else { return false }
        shared.requests.post(.perform(command, Reference(client: number, token: token)))
        return true
    }

    private static func enter(_ count: borrowing Atomic<Int>, limit: Int) -> Bool {
        if count.add(1, ordering: .relaxed).newValue <= limit { return true }
        count.subtract(1, ordering: .relaxed)
        return false
    }
}

/// An event of the registry for a worker, on the worker's thread. The token is that of the request.
public enum RegistryEvent: Sendable {
    /// The result of a look-up that was `pending`. It is never `pending` itself.
    case device(token: UInt64, DeviceLookup)
    /// The outcome of a counter value that was accepted in memory.
    case counter(token: UInt64, CounterOutcome)
    case reply(token: UInt64, Result<RegistryReply, StoreError>)
    /// Open connections with these mTLS keys must be closed, because their device was revoked or their binding ended.
    /// Look-ups already return that state.
    case barred([KeyID])
    /// The store has a fresh epoch, so earlier challenges are refused. A client that connects later receives this event
    /// at once.
    case identity(StoreIdentity)
}

/// An event of the store for logs.
public enum StoreEvent: Equatable, Sendable {
    /// The store failed. Everything that needs it is refused until it has recovered.
    case failed(String)
    /// The store still cannot be opened. It is reported once for each reason.
    case cannotReopen(String)
    case recovered
}

/// A request of a worker to the store's thread.
enum StoreRequest: Sendable {
    case attach(ClientNumber, Mailbox<[RegistryEvent]>)
    case detach(ClientNumber)
    case look(KeyID, Reference)
    case spend([SpendRequest])
    case perform(RegistryCommand, Reference)
    /// A message of the thread to itself: continue sliced work.
    case turn
    /// Answer the process at the other end of a socket, which has released its store to this one.
    case answer(Int32)
    /// Commit earlier requests and close the store; then ask the process at the other end of a socket.
    case release(asking: Int32)
    /// Commit earlier requests, close the store, and end the thread.
    case stop
}

struct ClientNumber: Hashable, Sendable {
    let number: Int
}

/// The client of a request and the token for its answer.
struct Reference: Sendable {
    let client: ClientNumber
    let token: UInt64
}

struct SpendRequest: Sendable {
    let entry: CounterEntry
    let reference: Reference
    /// Whether the value is spent in the shared record. It is not if the record was evicted meanwhile.
    let isAccepted: Bool
}
