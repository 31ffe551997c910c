internal import CLibevent
internal import Glibc

/// One libevent loop, run by one thread. Everything registered with it is called on that thread.
///
/// Not `Sendable`: other threads reach a loop through a `Mailbox` alone.
public final class Loop {
    let base: OpaquePointer
    /// When the event being served began. Good enough for deadlines and durations, and read once an event.
    ///
    /// Computed, as are other much-read properties here and in `Server`: accesses to a stored property that other modules
    /// can see are checked for exclusivity at run time.
    public var now: Instant { clock }
    private var clock = Instant.now

    func refreshClock() { clock = .now }

    private let time: () -> Instant

    public convenience init() throws(EventLoopError) { try self.init(time: { .now }) }

    /// - Parameter time: what pieces of work, and the events between them, are measured by.
    package init(time: @escaping () -> Instant) throws(EventLoopError) {
        self.time = time
        guard let configuration = event_config_new() else { throw .outOfMemory }
        defer { event_config_free(configuration) }
        // One thread per loop, so libevent's locks would be paid for nothing.
        event_config_set_flag(configuration, Int32(EVENT_BASE_FLAG_NOLOCK.rawValue))
        // Mailboxes rely on it.
        guard event_config_require_features(configuration, Int32(EV_FEATURE_ET.rawValue)) == 0 else {
            throw .outOfMemory
        }
        guard let base = event_base_new_with_config(configuration) else { throw .outOfMemory }
        self.base = base
    }

    deinit {
        event_base_free(base)
    }

    /// What is done when all events that were ready together have been served.
    private var turnEnd: [Action] = []
    /// Of the turn that ends; empty but for its room at any other time.
    private var ending: [Action] = []
    /// What takes long, and has more to do.
    private var works: [Work] = []
    /// Those that have a piece done right now; empty but for its room at any other time.
    private var working: [Work] = []
    private var isStopped = true

    // A closure that is an array's own element is wrapped each time it goes in, also where it has just come out.
    private struct Action { let run: () -> Void }
    private struct Work { let doPiece: () -> Bool }

    /// Serves events until `stop()`.
    public func run() {
        isStopped = false
        while !isStopped {
            // Also without a single event registered: a worker waits for its mailbox. What a turn has left for the next one waits
            // for no event, but those that are ready come before it: who always leaves something starves nobody.
            let wait = turnEnd.isEmpty && works.isEmpty ? EVLOOP_ONCE : EVLOOP_NONBLOCK
            // Of a turn that waits for its events it is not known how long they took; no work has waited for them either.
            let began = works.isEmpty ? nil : time()
            event_base_loop(base, wait | EVLOOP_NO_EXIT_ON_EMPTY)
            if !isStopped, !works.isEmpty {
                let ended = time()
                doWork(until: ended + (began.map { ended - $0 } ?? .seconds(0)))
            }
            endTurn()
        }
        // What the last turn has left. No more comes: a loop that does not run leaves nothing for later.
        works.removeAll()
        endTurn()
    }

    /// Work that waits gets as long as the events it waited for, and a piece at least: who sends events without end, each of them
    /// cheap, takes half of the loop's time at most.
    private func doWork(until end: Instant) {
        repeat {
            swap(&works, &working)
            for work in working {
                refreshClock()
                if work.doPiece() { works.append(work) }
            }
            working.removeAll(keepingCapacity: true)
        } while !isStopped && !works.isEmpty && time() < end
    }

    private func endTurn() {
        guard !turnEnd.isEmpty else { return }
        swap(&turnEnd, &ending)
        for action in ending { action.run() }
        ending.removeAll(keepingCapacity: true)
    }

    /// Calls `piece` in each turn, when the events that were ready together have been served and before what is done at the
    /// turn's end, until it returns false: for work that takes long. Once, and again for as long as it has waited for the turn's
    /// events: so these wait for one piece or for as long as they take themselves, and the work has half of the time. Of a loop
    /// that stops, what is left is not done. On the loop's own thread, while the loop runs.
    public func work(inPieces piece: @escaping () -> Bool) { works.append(Work(doPiece: piece)) }

    /// Whether pieces of work are left for the next turn, which follows without a wait.
    public var isWorkLeft: Bool { !works.isEmpty }

    /// Calls `action` once, when all events that were ready together with the one now served have been served, before the
    /// loop waits for others: for what costs less when it is done for many at once. From within such an action: at the end of
    /// the next turn, which follows without a wait. At once if the loop does not run. On the loop's own thread.
    public func whenTurnEnds(_ action: @escaping () -> Void) {
        if isStopped { action() } else { turnEnd.append(Action(run: action)) }
    }

    /// Ends `run()` once the callback now running returns. To be called on the loop's own thread.
    public func stop() {
        isStopped = true
        event_base_loopbreak(base)
    }
}

public enum EventLoopError: Error, Equatable, Sendable {
    case outOfMemory
    /// A system call failed.
    case system(call: String, errno: Int32)
    /// An address is not of the form HOST:PORT with a literal IP address.
    case address(String)

    /// For people.
    public var text: String {
        switch self {
        case .outOfMemory: "out of memory"
        case .system(let call, let errno): "\(call): \(Self.text(of: errno))"
        case .address(let text): "\(text) is not an IP address with a port"
        }
    }

    public static func text(of errno: Int32) -> String { String(cString: strerror(errno)) }

    /// Whether a system call failed because this process or machine lacks descriptors or memory, and not because of its peer.
    public static func isExhaustion(_ errno: Int32) -> Bool {
        errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS
    }
}

/// A timer that belongs to no socket: periodic work, the deadline of a drain.
///
/// Its owner keeps it; dropping it cancels it.
public final class LoopTimer {
    /// Kept alive: the event refers to the loop until it is freed.
    private let loop: Loop
    private var event: OpaquePointer?
    private let action: () -> Void
    private let interval: TimeSpan

    /// - Parameters:
    ///   - interval: time until `action` is called first, and between calls when `repeats`.
    public convenience init(loop: Loop, interval: TimeSpan, repeats: Bool = false, action: @escaping () -> Void) {
        self.init(loop: loop, interval: interval, repeats: repeats, action)
    }

    /// A timer that fires once, whenever it is started.
    ///
    /// - Parameter first: time until then the first time; nil if it is started later.
    public convenience init(loop: Loop, startsIn first: TimeSpan?, action: @escaping () -> Void) {
        self.init(loop: loop, interval: first, repeats: false, action)
    }

    private init(loop: Loop, interval: TimeSpan?, repeats: Bool, _ action: @escaping () -> Void) {
        self.loop = loop
        self.action = action
        self.interval = interval ?? TimeSpan(nanoseconds: 0)
        event = event_new(
            loop.base, -1, Int16(repeats ? EV_PERSIST : 0), loopTimerFired, Unmanaged.passUnretained(self).toOpaque())
        if let interval { start(after: interval) }
    }

    deinit {
        event_free(event)
    }

    /// Starts a timer that does not repeat once more.
    public func start() { start(after: interval) }

    /// The same for another time, in place of any that it was started for.
    public func start(after span: TimeSpan) {
        var time = timeval(after: span)
        event_add(event, &time)
    }

    fileprivate func fire() {
        loop.refreshClock()
        action()
    }
}

/// The context is the timer, alive until its `deinit` frees the event.
private nonisolated func loopTimerFired(_: Int32, _: Int16, _ context: UnsafeMutableRawPointer?) {
    guard let context else { preconditionFailure("a timer event without its timer") }
    Unmanaged<LoopTimer>.fromOpaque(context).takeUnretainedValue().fire()
}

/// Calls an action on the loop's thread when the process receives a signal.
///
/// libevent serves signals through one loop per process: make watchers on the main thread's loop only.
public final class SignalWatcher {
    /// Kept alive: the event refers to the loop until it is freed.
    private let loop: Loop
    private var event: OpaquePointer?
    private let action: () -> Void

    public init(loop: Loop, signal: Int32, action: @escaping () -> Void) {
        self.loop = loop
        self.action = action
        event = event_new(
            loop.base, signal, Int16(EV_SIGNAL | EV_PERSIST), signalCame, Unmanaged.passUnretained(self).toOpaque())
        event_add(event, nil)
    }

    deinit {
        event_free(event)
    }

    fileprivate func fire() { action() }

    /// A write that cannot be done, because the peer closed its end or a file has reached its limit of size, must be an
    /// error code, never a signal that ends the process.
    public static func ignoreWriteSignals() {
        signal(SIGPIPE, SIG_IGN)
        signal(SIGXFSZ, SIG_IGN)
    }
}

/// The context is the watcher, alive until its `deinit` frees the event.
private nonisolated func signalCame(_: Int32, _: Int16, _ context: UnsafeMutableRawPointer?) {
    guard let context else { preconditionFailure("a signal event without its watcher") }
    Unmanaged<SignalWatcher>.fromOpaque(context).takeUnretainedValue().fire()
}

/// Which libevent this process runs with.
public enum LibeventVersion {
    /// As libevent says it, `2.1.12-stable`: of the library that was loaded.
    public static var text: String { event_get_version().map { String(cString: $0) } ?? "unknown" }
}
