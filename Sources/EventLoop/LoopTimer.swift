internal import CLibevent
internal import Glibc

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
