internal import CLinux
internal import Glibc
internal import Synchronization

/// A named thread that runs one function to its end.
public final class LoopThread: Sendable {
    private let thread: Mutex<pthread_t?>

    /// - Parameter name: shown by `ps -T` and `top -H`; at most 15 bytes are kept.
    public init(name: String, body: @escaping @Sendable () -> Void) throws(EventLoopError) {
        let start = Unmanaged.passRetained(Start(name: name, body: body))
        var thread = pthread_t()
        let status = pthread_create(&thread, nil, runThread, start.toOpaque())
        guard status == 0 else {
            start.release()
            throw .system(call: "pthread_create", errno: status)
        }
        self.thread = Mutex(thread)
    }

    /// A thread that nobody has joined, nor will: its stack goes when it ends.
    deinit {
        if let thread = thread.withLock({ $0.take() }) { pthread_detach(thread) }
    }

    /// Waits until the function has returned. Only the first call waits.
    public func join() {
        let thread = thread.withLock { $0.take() }
        if let thread { pthread_join(thread, nil) }
    }
}

private final class Start: Sendable {
    let name: String
    let body: @Sendable () -> Void

    init(name: String, body: @escaping @Sendable () -> Void) {
        self.name = String(decoding: name.utf8.prefix(15), as: UTF8.self)
        self.body = body
    }
}

/// Takes over the reference that `LoopThread.init` retained for it.
private nonisolated func runThread(_ context: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
    guard let context else { preconditionFailure("a thread has no start function") }
    let start = Unmanaged<Start>.fromOpaque(context).takeRetainedValue()
    ag_pthread_setname(pthread_self(), start.name)
    start.body()
    return nil
}

/// The C library's allocator, which all memory of the process comes from.
public enum Allocator {
    /// Gives memory that nobody uses back to the system. Takes some milliseconds for each 100 MiB; other threads wait
    /// meanwhile if they allocate from the part that is gone through.
    public static func giveBack() { _ = ag_malloc_trim(0) }
}
