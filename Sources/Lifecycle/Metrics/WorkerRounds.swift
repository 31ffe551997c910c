internal import EventLoop

/// Asks all workers one thing, again and again, and waits for those that answer in time. Belongs to the main thread.
final class WorkerRounds {
    private let workers: WorkerGroup
    private let question: Worker.Command
    private var asked: Set<Int> = []
    private var silent: Set<Int> = []
    /// Who was asked and has not answered, be it since long: asking again would only fill the mailbox.
    private var owing: Set<Int> = []
    private var waiting: [(Set<Int>) -> Void] = []
    private var timer: LoopTimer?

    /// A worker that takes longer is reported as not answering.
    private static let patience = TimeSpan.seconds(1)

    init(_ question: Worker.Command, loop: Loop, workers: WorkerGroup) {
        self.question = question
        self.workers = workers
        timer = LoopTimer(loop: loop, interval: Self.patience) { [unowned self] in finish() }
    }

    /// - Parameter completion: called once, within a second, with the workers that have answered. A call during a round
    ///   gets the result of that round.
    func begin(_ completion: @escaping (_ answered: Set<Int>) -> Void) {
        waiting.append(completion)
        guard waiting.count == 1 else { return }
        asked = workers.running
        silent = asked
        for worker in asked where owing.insert(worker).inserted { workers.tell(worker, question) }
        if silent.isEmpty { return finish() }
        // Restarts the full time, regardless of what was left of the last round.
        timer?.start()
    }

    func answered(_ worker: Int) {
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
        let answered = asked.subtracting(silent)
        for completion in completions { completion(answered) }
        silent = []
    }
}
