internal import EventLoop
internal import Gateway

/// Asks all workers for snapshots, and waits for those that answer in time. Belongs to the main thread.
final class SnapshotRounds {
    /// The last snapshot of each worker that ever sent one, and which of them have answered this time.
    typealias Result = (latest: [Int: WorkerSnapshot], answered: Set<Int>)

    private let workers: WorkerGroup
    private var latest: [Int: WorkerSnapshot] = [:]
    private var asked: Set<Int> = []
    private var silent: Set<Int> = []
    /// Who was asked and has not answered, be it since long: asking again would only fill the mailbox.
    private var owing: Set<Int> = []
    private var waiting: [(Result) -> Void] = []
    private var timer: LoopTimer?

    /// A worker that takes longer is reported as not answering.
    private static let patience = TimeSpan.seconds(1)

    init(loop: Loop, workers: WorkerGroup) {
        self.workers = workers
        timer = LoopTimer(loop: loop, interval: Self.patience) { [unowned self] in finish() }
    }

    /// - Parameter completion: called once, within a second; at once with whoever asks while others wait.
    func collect(_ completion: @escaping (Result) -> Void) {
        waiting.append(completion)
        guard waiting.count == 1 else { return }
        asked = workers.running
        silent = asked
        for worker in asked where owing.insert(worker).inserted { workers.tell(worker, .snapshot) }
        if silent.isEmpty { return finish() }
        // Its time begins anew, whatever was left of the last one.
        timer?.start()
    }

    func received(_ snapshot: WorkerSnapshot, from worker: Int) {
        latest[worker] = snapshot
        owing.remove(worker)
        guard silent.remove(worker) != nil, silent.isEmpty else { return }
        finish()
    }

    /// It will not answer any more.
    func ended(_ worker: Int) {
        guard silent.contains(worker) else { return }
        asked.remove(worker)
        silent.remove(worker)
        if silent.isEmpty { finish() }
    }

    private func finish() {
        let completions = waiting
        waiting = []
        for completion in completions { completion((latest, asked.subtracting(silent))) }
        silent = []
    }
}
