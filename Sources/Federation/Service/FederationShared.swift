internal import Bytes
internal import Cryptography
internal import Enrolment
internal import EventLoop
internal import Registry
internal import Server
internal import Synchronization

/// The objects that a generation is created with and that outlive it.
struct FederationContext {
    let resources: ServiceResources
    let shared: FederationShared
    let audit: (FederationDecision) -> Void
}

/// The state that all generations of one service share. Belongs to the service's thread, except that any thread may
/// read the counts.
final class FederationShared {
    var limits = AddressLimits()
    var directory = ServiceDirectory()
    private let counts: FederationCounts

    init(_ counts: FederationCounts) {
        self.counts = counts
    }

    func count(_ change: (inout FederationMetrics) -> Void) { counts.change(change) }
}

/// The counts of one service, written by its thread.
final class FederationCounts: Sendable {
    private let metrics = Mutex(FederationMetrics())

    var current: FederationMetrics { metrics.withLock { $0 } }

    func change(_ change: (inout FederationMetrics) -> Void) { metrics.withLock { change(&$0) } }
}
