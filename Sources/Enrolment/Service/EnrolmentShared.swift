internal import EventLoop
internal import Synchronization

/// What all generations of one service have in common. Belongs to the service's thread; the counts may be read by any.
final class EnrolmentShared {
    var limits = AddressLimits()
    /// Until when Apple is not asked; set by the generation that received the refusal.
    var receiptPause: (reason: RefreshSchedule.Pause, until: Instant)?
    private let counts: EnrolmentCounts

    init(_ counts: EnrolmentCounts) {
        self.counts = counts
    }

    func count(_ change: (inout EnrolmentMetrics) -> Void) { counts.change(change) }
}

/// The counts of one service, written by its thread.
final class EnrolmentCounts: Sendable {
    private let metrics = Mutex(EnrolmentMetrics())

    var current: EnrolmentMetrics { metrics.withLock { $0 } }

    func change(_ change: (inout EnrolmentMetrics) -> Void) { metrics.withLock { change(&$0) } }
}
