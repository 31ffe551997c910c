internal import EventLoop

/// Tells the service manager that the process is alive, for as long as every loop that serves goes round.
final class Watchdog {
    private let ping: () -> Set<Int>
    private let running: () -> Set<Int>
    private let notifier: ServiceNotifier
    private var silent: Set<Int> = []
    private var timer: LoopTimer?

    /// - Parameters:
    ///   - notifier: whose manager wants to hear from the process.
    ///   - ping: asks all that serve. Returns their numbers.
    ///   - running: the numbers of those that serve.
    init(
        loop: Loop, notifier: ServiceNotifier, ping: @escaping () -> Set<Int>, running: @escaping () -> Set<Int>
    ) {
        self.ping = ping
        self.running = running
        self.notifier = notifier
        // Half the time that the manager waits (sd_watchdog_enabled(3)).
        let interval = TimeSpan(nanoseconds: Int64(clamping: notifier.watchdogInterval ?? 0) * 500)
        timer = LoopTimer(loop: loop, interval: interval, repeats: true) { [unowned self] in ask() }
        ask()
    }

    private func ask() {
        // Those that have ended owe no answer. A worker that owes one is not asked again: its mailbox must have room
        // for more than pings.
        silent.formIntersection(running())
        guard silent.isEmpty else { return }
        silent = ping()
    }

    func answered(_ worker: Int) {
        guard silent.remove(worker) != nil, silent.isEmpty else { return }
        notifier.isAlive()
    }
}
