internal import EventLoop
internal import Glibc

/// An upgrade under way: another process is about to take over from this one.
///
///     duplicating -> starting -> windingUp -> released -> nothing is left but to end
///        \______________________\____________\_____ failed: this process serves on, or again
final class UpgradeState {
    enum Phase: Comparable {
        /// The threads make second descriptors of their sockets.
        case duplicating
        /// The other process makes everything ready.
        case starting
        /// This one accepts no more, and decides what it has been asked.
        case windingUp
        /// The registry is the other's.
        case released
        /// It serves.
        case served
    }

    enum Outcome {
        /// - process: the one that serves.
        case done(process: Int32)
        /// This process continues as if no upgrade had been asked for.
        case failed(String)
    }

    let completion: (Outcome) -> Void
    var phase = Phase.duplicating
    /// Whose answers are waited for, by number.
    var missing: Set<Int>
    /// Duplicate descriptors of listening sockets, by the number of the thread that owns the originals, and by address:
    /// for the other process, and for this one should it have to serve again.
    var sockets: [Int: [String: Int32]] = [:]
    /// Some thread had no descriptors left.
    var isShort = false
    /// What was started, which is not the process that takes over but its parent.
    var parent: pid_t?
    /// The process that takes over, once it has said so.
    var successor: pid_t?
    var channel: UpgradeChannel?
    /// Of the phase.
    var timer: LoopTimer?
    /// What the other process has said last, of why it does not serve.
    var reportedFailure: String?
    /// Why it fails, once it does: the rest is to serve again.
    var failure: String?

    init(missing: Set<Int>, completion: @escaping (Outcome) -> Void) {
        self.missing = missing
        self.completion = completion
    }

    deinit {
        ListeningAddresses.release(Array(sockets.values))
        reap()
    }

    /// Takes note of how the started process has ended, if it has.
    ///
    /// - Parameter looks: how often to look, a millisecond apart: a process that ends closes its files before it has ended.
    /// - Returns: why nothing was started; nil if nobody knows.
    @discardableResult
    func reap(looks: Int = 1) -> String? {
        var status: Int32 = 0
        guard let process = parent else { return nil }
        var looks = looks
        while waitpid(process, &status, WNOHANG) != process {
            looks -= 1
            guard looks > 0 else { return nil }
            usleep(1_000)
        }
        parent = nil
        // wait(2): the low seven bits are the signal, the next octet is the status.
        if status & 0x7f != 0 { return "it was killed by signal \(status & 0x7f)" }
        let code = status >> 8 & 0xff
        return code == 0 ? nil : "it exited with status \(code)"
    }
}
