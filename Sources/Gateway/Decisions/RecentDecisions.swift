/// One worker's latest decisions, for operators who watch the gateway now. Contains all refusals and aborted requests,
/// and a sample of the others, which is taken only while an operator asks. Belongs to the worker's thread.
///
/// Bounded: what nobody has fetched in time makes room for what comes, and is counted. The price of a request that is forwarded
/// is one comparison.
package final class RecentDecisions {
    /// What came since the last time somebody asked.
    package struct Batch: Sendable {
        package let decisions: [RecentDecision]
        /// Refusals that nobody has fetched before there was no room for them any more.
        package let leftOut: UInt64
    }

    private var ring: [RecentDecision] = []
    /// Where the oldest lies, once the ring is full.
    private var oldest = 0
    private var leftOut: UInt64 = 0
    /// How many more that were not refused are kept until somebody asks again: none if nobody ever did.
    private var ordinaryRoom = 0
    /// Somebody has asked. From then on devices have names, even if nothing logs them.
    package var wasAsked: Bool { isAsked }
    private var isAsked = false
    private let limit: Int

    /// Far more than anybody reads in the half second between two questions of a page.
    package static let limit = 256
    /// Of those that were not refused, between two questions.
    static let sample = 24

    package init() { limit = Self.limit }

    init(limit: Int) { self.limit = limit }

    /// Whether it is kept.
    ///
    /// - Parameter isOrdinary: it was neither refused nor broken off.
    func wants(isOrdinary: Bool) -> Bool { !isOrdinary || ordinaryRoom > 0 }

    func add(_ decision: RecentDecision) {
        if decision.denial == nil, !decision.isAborted { ordinaryRoom = max(0, ordinaryRoom - 1) }
        guard ring.count == limit else { return ring.append(decision) }
        ring[oldest] = decision
        oldest = (oldest + 1) % limit
        leftOut += 1
    }

    /// Everything since the last time, oldest first.
    package func take() -> Batch {
        isAsked = true
        ordinaryRoom = Self.sample
        defer {
            ring.removeAll(keepingCapacity: true)
            oldest = 0
            leftOut = 0
        }
        return Batch(decisions: Array(ring[oldest...] + ring[..<oldest]), leftOut: leftOut)
    }
}
