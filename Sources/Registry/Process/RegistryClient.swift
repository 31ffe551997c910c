public import EventLoop
internal import Synchronization
public import Vocabulary

/// One worker's way to the registry. Used on the worker's thread only; nothing here waits.
///
/// Dropping it ends the events. What was asked before still happens.
public final class RegistryClient {
    private let shared: RegistryShared
    private let number: ClientNumber
    private let loop: Loop
    private let commandLimit: Int
    private let receiver: MailboxReceiver<[RegistryEvent]>
    /// Spent in this turn of the loop, and not yet sent to the store.
    private var gathered: [SpendRequest] = []
    private var gatheredSince = Instant(nanoseconds: 0)
    /// Whether `turnEnds` is to be called already.
    private var awaitsTurnEnd = false
    /// Made once: the loop is given it for each batch.
    private lazy var turnEndAction: () -> Void = { [weak self] in self?.turnEnds() }

    /// While many proofs wait to be verified, the first of them must not wait for the last.
    private static let gatheredLimit = 64
    private static let gatheringTime = TimeSpan.milliseconds(1)

    /// - Parameters:
    ///   - commandLimit: how many commands, of all clients, may wait before one of this client is refused.
    ///   - receive: called on the loop's thread with answers and with what concerns every worker.
    public init(
        _ registry: DeviceRegistry, loop: Loop, commandLimit: Int = RegistryLimits.waitingCommands,
        receive: @escaping (RegistryEvent) -> Void
    ) throws(EventLoopError) {
        self.commandLimit = min(commandLimit, RegistryLimits.waitingCommands)
        shared = registry.shared
        number = registry.newClient()
        self.loop = loop
        // Never refuses: an answer or a revocation must not be lost. Bounded all the same, by what may wait for answers
        // and by how often operators revoke.
        let events = try Mailbox<[RegistryEvent]>(limit: .max)
        receiver = MailboxReceiver(loop: loop, mailbox: events) { events in
            for event in events { receive(event) }
        }
        guard shared.requests.post(.attach(number, events)) else { throw .outOfMemory }
    }

    deinit {
        handOver()
        // If there is no room, the store's thread keeps a mailbox that nobody empties any more; the process is ending.
        shared.requests.post(.detach(number))
    }

    /// Which device an mTLS key is bound to, and whether both are good.
    ///
    /// - Parameter token: comes back with `RegistryEvent.device` if the answer is `pending`; not asked for otherwise.
    public func device(forBinding key: KeyID, token: @autoclosure () -> UInt64) -> DeviceLookup {
        guard shared.health.isFresh(loop.now) else { return .storeUnavailable }
        let known = shared.records.look(up: key, now: loop.now)
        guard case .pending = known else { return known }
        guard Self.enter(shared.counts.looking, limit: shared.limits.waitingLookups) else {
            shared.counts.overflows.add(1, ordering: .relaxed)
            return .storeUnavailable
        }
        // There is room: the mailbox has a place for each that `enter` let in.
        shared.requests.post(.look(key, Reference(client: number, token: token())))
        return .pending
    }

    /// Spends a counter value: in memory now, durably as soon as the store can.
    ///
    /// To be called once the signature over it is verified, and never twice for one request.
    ///
    /// - Parameters:
    ///   - shown: by the assertion that carries it; remembered with it, durably.
    ///   - epoch: of the challenge the proof was made for.
    ///   - token: comes back with `RegistryEvent.counter` if the answer is `pending`.
    public func spend(
        _ counter: UInt32, of device: DeviceSnapshot, showing shown: ShownExtensions, mode: CounterMode,
        epoch: RandomID, token: UInt64
    ) -> CounterAcceptance {
        guard shared.health.takesCounters(loop.now) else { return .storeUnavailable }
        // A place in the queue first: what cannot wait for the store is not spent either.
        guard Self.enter(shared.counts.waiting, limit: shared.limits.waitingCounters) else {
            shared.counts.overflows.add(1, ordering: .relaxed)
            return .storeUnavailable
        }
        let acceptance = shared.records.accept(
            counter, of: device.id, showing: shown, mode: mode, hint: device.slot)
        if let acceptance, acceptance != .pending {
            shared.counts.waiting.subtract(1, ordering: .relaxed)
            return acceptance
        }
        let entry = CounterEntry(
            device: device.id, binding: device.binding, counter: counter, epoch: epoch, shown: shown,
            mode: acceptance == nil ? mode : .unspent)
        let reference = Reference(client: number, token: token)
        gather(SpendRequest(entry: entry, reference: reference, isAccepted: acceptance != nil))
        return .pending
    }

    /// What is spent in one turn of the loop goes to the store together, and with it what is spent while the loop has long work left,
    /// which is more proofs to verify: each message may wake the store's thread, and each commit has a price of its own.
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
    /// - Returns: false if too many wait already; nothing will happen then. Else `RegistryEvent.reply` follows.
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

/// What the registry tells a worker, on the worker's own thread. A token is what the worker gave with its question.
public enum RegistryEvent: Sendable {
    /// The answer to a lookup that was `pending`; never `pending` itself.
    case device(token: UInt64, DeviceLookup)
    /// What became of a counter value that was accepted in memory.
    case counter(token: UInt64, CounterOutcome)
    case reply(token: UInt64, Result<RegistryReply, StoreError>)
    /// The device of these mTLS keys was revoked, or the binding of this key ended: open connections with them are to be
    /// closed. Lookups say so already.
    case barred([KeyID])
    /// The store has a fresh epoch: challenges of earlier ones are refused. A client that attaches later receives it at
    /// once.
    case identity(StoreIdentity)
}

/// What the store's thread reports for logs.
public enum StoreEvent: Equatable, Sendable {
    /// The store failed; everything that needs it is refused until it has recovered.
    case failed(String)
    /// It still cannot be opened. Reported once for each reason.
    case cannotReopen(String)
    case recovered
}

/// What workers ask of the store's thread.
enum StoreRequest: Sendable {
    case attach(ClientNumber, Mailbox<[RegistryEvent]>)
    case detach(ClientNumber)
    case look(KeyID, Reference)
    case spend([SpendRequest])
    case perform(RegistryCommand, Reference)
    /// From the thread to itself: go on with work that was cut into slices.
    case turn
    /// Commit what was asked before this, close the file, end.
    case stop
}

struct ClientNumber: Hashable, Sendable {
    let number: Int
}

/// Who asked, and what the answer carries so that they know what for.
struct Reference: Sendable {
    let client: ClientNumber
    let token: UInt64
}

struct SpendRequest: Sendable {
    let entry: CounterEntry
    let reference: Reference
    /// Whether the value is spent in the shared record. It is not if the record had to make room meanwhile.
    let isAccepted: Bool
}
