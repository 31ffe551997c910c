internal import EventLoop
internal import Glibc

/// The messages to the service manager: none without one, after this process stops, and after another took over.
final class ServiceManager {
    private var notifier = ServiceNotifier.system
    private var watchdog: Watchdog?
    private let loop: Loop
    private let threads: ServingThreads

    init(loop: Loop, _ threads: ServingThreads) {
        self.loop = loop
        self.threads = threads
    }

    /// Reports that this process serves, and from then on that it is alive.
    func begin(_ status: String) {
        notifier?.ready(status)
        guard let notifier, notifier.watchdogInterval != nil else { return }
        watchdog = Watchdog(loop: loop, notifier: notifier) { [threads] in
            threads.ping()
            return threads.running
        } running: { [threads] in
            threads.running
        }
    }

    func reloading() { notifier?.reloading() }
    func ready(_ status: String) { notifier?.ready(status) }

    /// Reports that the process stops. It must still be alive.
    func stopping() {
        notifier?.stopping()
        notifier = nil
    }

    /// Hands the supervision over to another process.
    func handOver(to process: Int32) {
        notifier?.handOver(to: process)
        notifier = nil
        watchdog = nil
    }

    /// Records that a thread is alive.
    func answered(_ thread: Int) { watchdog?.answered(thread) }
}

/// Reports the state of the process to the service manager (sd_notify(3)), with datagrams to the socket that
/// `NOTIFY_SOCKET` names.
///
/// Without that variable nothing is sent. A datagram that cannot be sent is lost: the manager has its own timeouts.
struct ServiceNotifier {
    private let address: sockaddr_un
    private let length: socklen_t
    /// The interval, in microseconds, in which the manager expects a sign of life; nil for none.
    let watchdogInterval: UInt64?

    /// Reads the environment.
    ///
    /// - Parameter environment: Returns a variable's value. `WATCHDOG_PID`, if present, must be this process.
    init?(environment: (String) -> String?) {
        guard let path = environment("NOTIFY_SOCKET"), let first = path.utf8.first,
            first == UInt8(ascii: "/") || first == UInt8(ascii: "@")
        else { return nil }
        var address = sockaddr_un()
        var bytes = Array(path.utf8)
        // A name in the abstract namespace begins with a zero.
        if first == UInt8(ascii: "@") { bytes[0] = 0 }
        guard bytes.count < MemoryLayout.size(ofValue: address.sun_path) else { return nil }
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
        self.address = address
        // In an abstract name every byte counts, so the length is exact.
        length = socklen_t(MemoryLayout<sa_family_t>.size + bytes.count)
        var interval: UInt64?
        if let text = environment("WATCHDOG_USEC"), let microseconds = UInt64(text), microseconds > 0,
            environment("WATCHDOG_PID").map({ $0 == String(getpid()) }) ?? true
        {
            interval = microseconds
        }
        watchdogInterval = interval
    }

    static var system: ServiceNotifier? {
        ServiceNotifier { name in getenv(name).map { String(cString: $0) } }
    }

    func ready(_ status: String) { send("READY=1\nSTATUS=\(status)\n") }

    /// The message contains its time, which lets the manager distinguish it from earlier ones; both in one datagram.
    func reloading() {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        send("RELOADING=1\nMONOTONIC_USEC=\(time.tv_sec * 1_000_000 + time.tv_nsec / 1_000)\n")
    }

    /// Hands the supervision over to another process.
    func handOver(to process: Int32) { send("MAINPID=\(process)\nREADY=1\nSTATUS=process \(process) serves\n") }

    func stopping() { send("STOPPING=1\n") }
    func isAlive() { send("WATCHDOG=1\n") }

    private func send(_ message: String) {
        let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return }
        defer { close(descriptor) }
        let bytes = Array(message.utf8)
        var address = address
        withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
                // Never waits: a manager that does not read must not block the gateway.
                _ = sendto(
                    descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT),
                    pointer, length)
            }
        }
    }
}

/// Reports to the service manager that the process is alive, as long as every loop that serves runs.
final class Watchdog {
    private let ping: () -> Set<Int>
    private let running: () -> Set<Int>
    private let notifier: ServiceNotifier
    private var silent: Set<Int> = []
    private var timer: LoopTimer?

    /// Starts the watchdog.
    ///
    /// - Parameters:
    ///   - notifier: The notifier whose manager expects signs of life.
    ///   - ping: Asks all that serve, and returns their numbers.
    ///   - running: Returns the numbers of those that serve.
    init(
        loop: Loop, notifier: ServiceNotifier, ping: @escaping () -> Set<Int>, running: @escaping () -> Set<Int>
    ) {
        self.ping = ping
        self.running = running
        self.notifier = notifier
        // Half of the manager's timeout (sd_watchdog_enabled(3)).
        let interval = TimeSpan(nanoseconds: Int64(clamping: notifier.watchdogInterval ?? 0) * 500)
        timer = LoopTimer(loop: loop, interval: interval, repeats: true) { [unowned self] in ask() }
        ask()
    }

    private func ask() {
        // Those that have ended need not answer. A worker that has not answered yet is not asked again: its mailbox
        // needs room for other commands.
        silent.formIntersection(running())
        guard silent.isEmpty else { return }
        silent = ping()
    }

    func answered(_ worker: Int) {
        guard silent.remove(worker) != nil, silent.isEmpty else { return }
        notifier.isAlive()
    }
}
