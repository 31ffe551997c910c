/// Where a change of configuration stands. All workers make it ready before any serves it, so that it happens in all of them
/// or in none.
///
/// A value without I/O: the process tells it what the workers report, and does what it answers.
struct GenerationChange {
    enum Action: Equatable {
        case wait
        /// Every worker is ready: let them all serve it.
        case adopt
        /// Some worker could not: let all drop it. Nobody is still making it ready, so what a worker says next is about the
        /// next change.
        case discard(fault: String)
        /// Every worker serves it.
        case finish
    }

    private var preparing: Set<Int>
    private var adopting: Set<Int>
    /// Why the first of those that could not could not.
    private var fault: String?

    /// - Parameter workers: their numbers, at least one.
    init(workers: some Sequence<Int>) {
        preparing = Set(workers)
        adopting = preparing
    }

    /// - Parameter fault: why the worker could not; nil if it is ready.
    mutating func prepared(by worker: Int, fault: String?) -> Action {
        guard preparing.remove(worker) != nil else { return .wait }
        self.fault = self.fault ?? fault
        guard preparing.isEmpty else { return .wait }
        return self.fault.map { .discard(fault: $0) } ?? .adopt
    }

    mutating func adopted(by worker: Int) -> Action {
        guard preparing.isEmpty, fault == nil, adopting.remove(worker) != nil else { return .wait }
        return adopting.isEmpty ? .finish : .wait
    }
}
