internal import EventLoop
internal import Gateway

/// Asks all workers for snapshots, and remembers the last one of each. Belongs to the main thread.
final class SnapshotRounds {
    /// The last snapshot of each worker that ever sent one, and which of them have answered this time.
    typealias Result = (latest: [Int: WorkerSnapshot], answered: Set<Int>)

    private let rounds: WorkerRounds
    private var latest: [Int: WorkerSnapshot] = [:]

    init(loop: Loop, workers: WorkerGroup) {
        rounds = WorkerRounds(.snapshot, loop: loop, workers: workers)
    }

    /// - Parameter completion: called once, within a second. A call during a round gets the result of that round.
    func collect(_ completion: @escaping (Result) -> Void) {
        rounds.begin { [unowned self] answered in completion((latest, answered)) }
    }

    func received(_ snapshot: WorkerSnapshot, from worker: Int) {
        latest[worker] = snapshot
        rounds.answered(worker)
    }

    /// It will not answer any more.
    func ended(_ worker: Int) { rounds.ended(worker) }
}
