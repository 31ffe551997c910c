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
    private let repeats: Bool

    /// - Parameters:
    ///   - interval: time until `action` is called first, and between calls when `repeats`.
    public init(loop: Loop, interval: TimeSpan, repeats: Bool = false, action: @escaping () -> Void) {
        self.loop = loop
        self.action = action
        self.interval = interval
        self.repeats = repeats
        event = event_new(
            loop.base, -1, Int16(repeats ? EV_PERSIST : 0), loopTimerFired, Unmanaged.passUnretained(self).toOpaque())
        start()
    }

    deinit {
        event_free(event)
    }

    /// Starts a timer that does not repeat once more.
    public func start() {
        var time = timeval(after: interval)
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
