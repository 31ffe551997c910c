internal import CLibevent
internal import Glibc

/// What a loop calls when a socket can be read or written, or when a deadline has passed.
///
/// Subclasses are connections and listeners. A handler is kept alive by its owner (a connection table, a pool) from
/// `watch()` to `close()`; libevent holds it unretained, and `close()` removes every event before the owner lets go,
/// so no callback can reach a freed handler. During a callback the loop holds one reference of its own.
///
/// The reading event is persistent and, unless asked for otherwise, level-triggered; the writing event exists only while the
/// kernel's buffer is full. A deadline costs nothing while it only moves further away: the timer is re-armed when it fires early.
open class SocketHandler {
    public final let loop: Loop
    public final var descriptor: Int32 { socket }
    private final var socket: Int32

    private final var readEvent: OpaquePointer?
    private final var writeEvent: OpaquePointer?
    private final var timerEvent: OpaquePointer?
    private final var isReading = false
    private final var isWriting = false
    private final var deadline = Instant(nanoseconds: .max)
    private final var armed = Instant(nanoseconds: .max)

    /// What reading waits for besides.
    private final let readFlags: Int16

    /// - Parameter readsEdges: whether `readable()` is called when something comes, rather than as long as something is there.
    public init(loop: Loop, socket: consuming Socket, readsEdges: Bool = false) {
        self.loop = loop
        readFlags = readsEdges ? Int16(EV_READ | EV_PERSIST | EV_ET) : Int16(EV_READ | EV_PERSIST)
        self.socket = socket.detach()
    }

    deinit {
        close()
    }

    /// The socket has bytes to read, was closed by the peer, or failed.
    open func readable() {}
    /// The socket has room again.
    open func writable() {}
    /// The deadline set last has passed.
    open func deadlinePassed() {}

    public final var isOpen: Bool { descriptor >= 0 }

    /// Whether `readable()` is called. Asking twice for the same costs nothing.
    public final func wantRead(_ want: Bool) {
        guard want != isReading, isOpen else { return }
        isReading = want
        if readEvent == nil { readEvent = makeEvent(readFlags, readReady) }
        if want { event_add(readEvent, nil) } else { event_del(readEvent) }
    }

    /// Calls `readable()` once more in the loop's next round, whatever the socket says: for bytes that a layer above the
    /// socket has read ahead.
    public final func readAgain() {
        wantRead(true)
        if isOpen { event_active(readEvent, Int32(EV_READ), 0) }
    }

    /// Whether `writable()` is called.
    public final func wantWrite(_ want: Bool) {
        guard want != isWriting, isOpen else { return }
        isWriting = want
        if writeEvent == nil { writeEvent = makeEvent(Int16(EV_WRITE | EV_PERSIST), writeReady) }
        if want { event_add(writeEvent, nil) } else { event_del(writeEvent) }
    }

    /// Calls `deadlinePassed()` once at `instant`, in place of any deadline set before.
    public final func setDeadline(_ instant: Instant) {
        deadline = instant
        if instant < armed { arm(at: instant) }
    }

    public final func clearDeadline() {
        deadline = Instant(nanoseconds: .max)
    }

    /// Removes every event and closes the socket. Harmless when done already.
    public final func close() {
        for event in [readEvent, writeEvent, timerEvent] where event != nil { event_free(event) }
        readEvent = nil
        writeEvent = nil
        timerEvent = nil
        isReading = false
        isWriting = false
        armed = Instant(nanoseconds: .max)
        if descriptor >= 0 {
            _ = Glibc.close(descriptor)
            socket = -1
        }
    }

    /// Gives up the socket for another one (an upstream connection trying its next address).
    public final func replaceSocket(_ socket: consuming Socket) {
        close()
        self.socket = socket.detach()
        if deadline.nanoseconds != .max { arm(at: deadline) }
    }

    private func makeEvent(_ what: Int16, _ callback: @escaping event_callback_fn) -> OpaquePointer {
        guard let event = event_new(loop.base, descriptor, what, callback, Unmanaged.passUnretained(self).toOpaque())
        else { fatalError("out of memory: event_new") }  // as every other allocation in Swift does
        return event
    }

    private func arm(at instant: Instant) {
        guard isOpen else { return }
        if timerEvent == nil {
            timerEvent = event_new(
                loop.base, -1, 0, timerFired, Unmanaged.passUnretained(self).toOpaque())
        }
        armed = instant
        var interval = timeval(after: instant - loop.now)
        event_add(timerEvent, &interval)
    }

    @inline(__always)
    fileprivate final func serve(_ event: (SocketHandler) -> Void) {
        loop.refreshClock()
        event(self)
    }

    fileprivate final func timerCame() {
        armed = Instant(nanoseconds: .max)
        guard deadline.nanoseconds != .max else { return }
        if deadline <= loop.now {
            deadline = Instant(nanoseconds: .max)
            deadlinePassed()
        } else {
            arm(at: deadline)
        }
    }
}

extension timeval {
    /// Rounded up to the microsecond, so that a timer never fires before its instant.
    init(after span: TimeSpan) {
        let microseconds = max(0, (span.nanoseconds + 999) / 1_000)
        self.init(tv_sec: Int(microseconds / 1_000_000), tv_usec: Int(microseconds % 1_000_000))
    }
}

private nonisolated func readReady(_: Int32, _: Int16, _ context: UnsafeMutableRawPointer?) {
    handler(context).serve { $0.readable() }
}

private nonisolated func writeReady(_: Int32, _: Int16, _ context: UnsafeMutableRawPointer?) {
    handler(context).serve { $0.writable() }
}

private nonisolated func timerFired(_: Int32, _: Int16, _ context: UnsafeMutableRawPointer?) {
    handler(context).serve { $0.timerCame() }
}

/// The context is the handler itself, set in `makeEvent`, alive until `close()` (see the class).
private func handler(_ context: UnsafeMutableRawPointer?) -> SocketHandler {
    guard let context else { preconditionFailure("an event without its handler") }
    return Unmanaged<SocketHandler>.fromOpaque(context).takeUnretainedValue()
}
