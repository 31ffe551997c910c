internal import Administration
internal import Encoding
internal import EventLoop
internal import Gateway

/// Asks all workers the same question repeatedly, and waits for the answers until a timeout. Used on the main thread
/// only.
private final class WorkerRounds {
    private let workers: WorkerGroup
    private let question: Worker.Command
    private var asked: Set<Int> = []
    private var silent: Set<Int> = []
    /// Workers that have not answered, also from earlier rounds: asking again would only fill the mailbox.
    private var owing: Set<Int> = []
    private var waiting: [(Set<Int>) -> Void] = []
    private var timer: LoopTimer?

    /// The timeout after which a worker counts as silent.
    private static let patience = TimeSpan.seconds(1)

    init(_ question: Worker.Command, loop: Loop, workers: WorkerGroup) {
        self.question = question
        self.workers = workers
        timer = LoopTimer(loop: loop, interval: Self.patience) { [unowned self] in finish() }
    }

    /// Begins a round.
    ///
    /// - Parameter completion: Called once, within a second, with the workers that have answered. A call during a
    ///   round gets the result of that round.
    func begin(_ completion: @escaping (_ answered: Set<Int>) -> Void) {
        waiting.append(completion)
        guard waiting.count == 1 else { return }
        asked = workers.running
        silent = asked
        for worker in asked where owing.insert(worker).inserted { workers.tell(worker, question) }
        if silent.isEmpty { return finish() }
        // Restarts the full timeout.
        timer?.start()
    }

    func answered(_ worker: Int) {
        owing.remove(worker)
        guard silent.remove(worker) != nil, silent.isEmpty else { return }
        finish()
    }

    /// Called when a worker has ended: it will not answer.
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

/// Asks all workers for snapshots, and keeps the last one of each. Used on the main thread only.
final class SnapshotRounds {
    /// The last snapshot of each worker that ever sent one, and the workers that answered in this round.
    typealias Result = (latest: [Int: WorkerSnapshot], answered: Set<Int>)

    private let rounds: WorkerRounds
    private var latest: [Int: WorkerSnapshot] = [:]

    init(loop: Loop, workers: WorkerGroup) {
        rounds = WorkerRounds(.snapshot, loop: loop, workers: workers)
    }

    /// Begins a round.
    ///
    /// - Parameter completion: Called once, within a second. A call during a round gets the result of that round.
    func collect(_ completion: @escaping (Result) -> Void) {
        rounds.begin { [unowned self] answered in completion((latest, answered)) }
    }

    func received(_ snapshot: WorkerSnapshot, from worker: Int) {
        latest[worker] = snapshot
        rounds.answered(worker)
    }

    /// Called when a worker has ended: it will not answer.
    func ended(_ worker: Int) { rounds.ended(worker) }
}

/// The latest decisions of all workers in one order, with numbers: pages ask for them repeatedly. Used on the main
/// thread only.
///
/// It is bounded: a client that asks too rarely finds that numbers are missing.
final class DecisionFeed {
    private let rounds: WorkerRounds
    private var kept: [DecisionDocument] = []
    private var lastNumber = 0
    private var leftOut: UInt64 = 0
    /// The decisions of this round, until all workers have answered: then they are sorted.
    private var arrived: [RecentDecision] = []

    /// More than a page shows.
    static let limit = 512

    init(loop: Loop, workers: WorkerGroup) {
        rounds = WorkerRounds(.decisions, loop: loop, workers: workers)
    }

    /// Begins a round.
    ///
    /// - Parameters:
    ///   - number: The last number that the client has; a larger one than any counts as none.
    ///   - completion: Called once, within a second.
    func collect(
        after number: Int, _ completion: @escaping (_ page: DecisionPage, _ answered: Set<Int>) -> Void
    ) {
        rounds.begin { [unowned self] answered in
            putInOrder()
            let known = number > lastNumber ? 0 : number
            completion(
                DecisionPage(last: lastNumber, leftOut: leftOut, decisions: kept.filter { $0.number > known }), answered
            )
        }
    }

    func received(_ batch: RecentDecisions.Batch, from worker: Int) {
        arrived += batch.decisions
        leftOut += batch.leftOut
        rounds.answered(worker)
    }

    /// Called when a worker has ended: it will not answer.
    func ended(_ worker: Int) { rounds.ended(worker) }

    private func putInOrder() {
        guard !arrived.isEmpty else { return }
        for decision in arrived.sorted(by: { $0.time < $1.time }) {
            lastNumber += 1
            kept.append(DecisionDocument(decision, number: lastNumber))
        }
        arrived = []
        kept.removeFirst(max(0, kept.count - Self.limit))
    }
}

extension DecisionDocument {
    fileprivate init(_ decision: RecentDecision, number: Int) {
        let row = decision.denial?.row
        self.init(
            number: number, time: InternetTime.text(ofMicroseconds: decision.time), event: decision.event.description,
            client: decision.client, route: decision.route, method: decision.methodName,
            protocol: decision.protocolName, decision: decision.decisionName,
            status: decision.status == 0 ? nil : Int(decision.status), denial: row?.code.description,
            fault: row?.fault.rawValue, sentence: row?.sentence.description,
            wouldDeny: decision.wouldDeny?.row.code.description, detail: decision.detail,
            device: decision.device, deviceNumber: decision.deviceNumber, app: decision.app,
            upstream: decision.upstream, server: decision.server, durationUs: decision.durationMicroseconds,
            traceID: decision.traceID, aborted: decision.isAborted ? true : nil)
    }
}
