internal import CLinux
internal import Glibc
internal import Synchronization

/// A named thread that runs one function to its end.
public final class LoopThread: Sendable {
    private let thread: Mutex<pthread_t?>

    /// Starts the thread.
    ///
    /// - Parameter name: the name that `ps -T` and `top -H` show. At most 15 bytes are kept.
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

    /// Detaches a thread that was not joined, so that its stack is freed at its end.
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

/// Runs the thread's function. Takes over the reference that `LoopThread.init` retained.
private nonisolated func runThread(_ context: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
    guard let context else { preconditionFailure("a thread has no start function") }
    let start = Unmanaged<Start>.fromOpaque(context).takeRetainedValue()
    ag_pthread_setname(pthread_self(), start.name)
    start.body()
    return nil
}

/// The C library's allocator, which provides all memory of the process.
public enum Allocator {
    /// Returns free memory to the system. Takes some milliseconds for each 100 MiB. Other threads wait meanwhile if
    /// they allocate from the same arena.
    public static func giveBack() { _ = ag_malloc_trim(0) }
}
