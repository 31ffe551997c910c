internal import Administration
internal import EventLoop
internal import Gateway

/// The latest decisions of all workers in one order, each with a number: what pages ask for again and again. Belongs to the main
/// thread.
///
/// Bounded: who asks too seldom finds that numbers are missing.
final class DecisionFeed {
    private let rounds: WorkerRounds
    private var kept: [DecisionDocument] = []
    private var lastNumber = 0
    private var leftOut: UInt64 = 0
    /// What came in this round, until all have answered: then it is put in order.
    private var arrived: [RecentDecision] = []

    /// More than a page shows.
    static let limit = 512

    init(loop: Loop, workers: WorkerGroup) {
        rounds = WorkerRounds(.decisions, loop: loop, workers: workers)
    }

    /// - Parameters:
    ///   - number: of the last one that is known already; one that is still to come stands for none.
    ///   - completion: called once, within a second.
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

    /// It will not answer any more.
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
            number: number, time: Timestamp.milliseconds(of: decision.time), event: decision.event.description,
            client: decision.client, route: decision.route, method: decision.methodName,
            protocol: decision.protocolName, decision: decision.decisionName,
            status: decision.status == 0 ? nil : Int(decision.status), denial: row?.code.description,
            fault: row?.fault.rawValue, sentence: row?.sentence.description, detail: decision.detail,
            device: decision.device, deviceNumber: decision.deviceNumber, app: decision.app,
            upstream: decision.upstream, server: decision.server, durationUs: decision.durationMicroseconds,
            traceID: decision.traceID, aborted: decision.isAborted ? true : nil)
    }
}
