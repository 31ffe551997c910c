internal import CLibevent
internal import Glibc

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
