internal import CLibevent
internal import Glibc

/// A libevent loop, run by one thread. All its callbacks run on that thread.
///
/// Not `Sendable`: other threads reach a loop only through a `Mailbox`.
public final class Loop {
    let base: OpaquePointer
    /// The time at which the current event began. Precise enough for deadlines and durations, and read once per event.
    public private(set) var now = Instant.now

    func refreshClock() { now = .now }

    private let time: () -> Instant

    public convenience init() throws(EventLoopError) { try self.init(time: { .now }) }

    /// Creates a loop with another clock.
    ///
    /// - Parameter time: the clock that measures pieces of work and the events between them.
    package init(time: @escaping () -> Instant) throws(EventLoopError) {
        self.time = time
        guard let configuration = event_config_new() else { throw .outOfMemory }
        defer { event_config_free(configuration) }
        // One thread per loop needs none of libevent's locks.
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

    /// The actions for the end of the turn, after all events that were ready together.
    private var turnEnd: [Action] = []
    /// The actions of the turn that ends. At other times empty, with its capacity kept.
    private var ending: [Action] = []
    /// Long work with pieces left.
    private var works: [Work] = []
    /// The work that runs a piece at present. At other times empty, with its capacity kept.
    private var working: [Work] = []
    private var isStopped = true

    // A closure as an array's element is wrapped again each time it is inserted, even right after its removal.
    private struct Action { let run: () -> Void }
    private struct Work { let doPiece: () -> Bool }

    /// Serves events until `stop()`.
    public func run() {
        isStopped = false
        while !isStopped {
            // The loop also runs without a single event: a worker waits for its mailbox. Actions left by a turn do not
            // wait for events, but ready events come first, so such actions starve nothing.
            let wait = turnEnd.isEmpty && works.isEmpty ? EVLOOP_ONCE : EVLOOP_NONBLOCK
            // The time of a turn that waited for its events is unknown, but then no work waited either.
            let began = works.isEmpty ? nil : time()
            event_base_loop(base, wait | EVLOOP_NO_EXIT_ON_EMPTY)
            if !isStopped, !works.isEmpty {
                let ended = time()
                doWork(until: ended + (began.map { ended - $0 } ?? .seconds(0)))
            }
            endTurn()
        }
        // The remains of the last turn. A loop that does not run defers nothing.
        works.removeAll()
        endTurn()
    }

    /// Runs waiting work for as long as its events took, and at least one piece. So an endless flow of cheap events
    /// takes at most half of the loop's time.
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

    /// Runs long work in pieces, once per turn, until `piece` returns false.
    ///
    /// A piece runs after the events that were ready together and before the actions for the end of the turn. It
    /// repeats for as long as the work has waited for the turn's events. So events wait for one piece, or for as long
    /// as they take themselves, and the work gets half of the time. A loop that stops drops the rest. Call it on the
    /// loop's own thread while the loop runs.
    public func work(inPieces piece: @escaping () -> Bool) { works.append(Work(doPiece: piece)) }

    /// Whether pieces of work are left for the next turn, which follows without a wait.
    public var isWorkLeft: Bool { !works.isEmpty }

    /// Calls `action` once at the end of the turn, for work that costs less in batches.
    ///
    /// The turn ends after all events that were ready together with the current one, before the loop waits. An action
    /// that is added by such an action runs at the end of the next turn, which follows without a wait. If the loop does
    /// not run, the action runs at once. Call it on the loop's own thread.
    public func whenTurnEnds(_ action: @escaping () -> Void) {
        if isStopped { action() } else { turnEnd.append(Action(run: action)) }
    }

    /// Ends `run()` after the current callback returns. Call it on the loop's own thread.
    public func stop() {
        isStopped = true
        event_base_loopbreak(base)
    }
}

public enum EventLoopError: Error, Equatable, Sendable {
    case outOfMemory
    /// A failed system call.
    case system(call: String, errno: Int32)
    /// An address that is not HOST:PORT with a literal IP address.
    case address(String)

    /// The text for people.
    public var text: String {
        switch self {
        case .outOfMemory: "out of memory"
        case .system(let call, let errno): "\(call): \(Self.text(of: errno))"
        case .address(let text): "\(text) is not an IP address with a port"
        }
    }

    public static func text(of errno: Int32) -> String { String(cString: strerror(errno)) }

    /// Returns whether a system call failed for lack of descriptors or memory of this process or machine, and not
    /// because of its peer.
    public static func isExhaustion(_ errno: Int32) -> Bool {
        errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS
    }
}

/// A timer without a socket, for periodic work or the deadline of a drain.
///
/// Its owner keeps it; releasing it cancels it.
public final class LoopTimer {
    /// Retained, because the event refers to the loop until it is freed.
    private let loop: Loop
    private var event: OpaquePointer?
    private let action: () -> Void
    private let interval: TimeSpan

    /// Starts a timer.
    ///
    /// - Parameters:
    ///   - interval: the time until the first call, and between calls if the timer repeats.
    public convenience init(loop: Loop, interval: TimeSpan, repeats: Bool = false, action: @escaping () -> Void) {
        self.init(loop: loop, interval: interval, repeats: repeats, action)
    }

    /// Creates a timer that fires once per start.
    ///
    /// - Parameter first: the time until the first call. Nil if the timer is started later.
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

    /// Restarts a timer that does not repeat.
    public func start() { start(after: interval) }

    /// Restarts the timer with another time, which replaces the pending one.
    public func start(after span: TimeSpan) {
        var time = timeval(after: span)
        event_add(event, &time)
    }

    fileprivate func fire() {
        loop.refreshClock()
        action()
    }
}

/// Calls the action of a timer. The context is the timer, alive until its `deinit` frees the event.
private nonisolated func loopTimerFired(_: Int32, _: Int16, _ context: UnsafeMutableRawPointer?) {
    guard let context else { preconditionFailure("a timer event without its timer") }
    Unmanaged<LoopTimer>.fromOpaque(context).takeUnretainedValue().fire()
}

/// A watcher that calls an action on the loop's thread when the process receives a signal.
///
/// libevent serves signals through one loop per process: create watchers on the main thread's loop only.
public final class SignalWatcher {
    /// Retained, because the event refers to the loop until it is freed.
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

    /// Watches a signal until the process has gone: a further signal in the last moment must not end it.
    public static func watch(_ signal: Int32, on loop: Loop, _ action: @escaping () -> Void) {
        _ = Unmanaged.passRetained(SignalWatcher(loop: loop, signal: signal, action: action))
    }

    /// Ignores the signals of failed writes. A write to a closed connection, or to a file at its size limit, must
    /// return an error instead of ending the process.
    public static func ignoreWriteSignals() {
        signal(SIGPIPE, SIG_IGN)
        signal(SIGXFSZ, SIG_IGN)
    }
}

/// Calls the action of a watcher. The context is the watcher, alive until its `deinit` frees the event.
private nonisolated func signalCame(_: Int32, _: Int16, _ context: UnsafeMutableRawPointer?) {
    guard let context else { preconditionFailure("a signal event without its watcher") }
    Unmanaged<SignalWatcher>.fromOpaque(context).takeUnretainedValue().fire()
}

/// The version of libevent.
public enum LibeventVersion {
    /// The version of the loaded library, such as `2.1.12-stable`.
    public static var text: String { event_get_version().map { String(cString: $0) } ?? "unknown" }
}
