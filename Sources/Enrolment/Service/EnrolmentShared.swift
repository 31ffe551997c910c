internal import Bytes
internal import Cryptography
internal import EventLoop
internal import Registry
internal import Synchronization

/// The objects that a generation is created with and that outlive it.
struct EnrolmentContext {
    let loop: Loop
    let pool: BufferPool
    let library: LibraryContext
    let registry: DeviceRegistry
    let registryRequests: RegistryRequests
    let shared: EnrolmentShared
    let audit: (EnrolmentDecision) -> Void
    let notify: (EnrolmentNotice) -> Void

    init(
        _ resources: ServiceResources, shared: EnrolmentShared, audit: @escaping (EnrolmentDecision) -> Void
    ) {
        loop = resources.loop
        pool = resources.pool
        library = resources.library
        registry = resources.registry
        registryRequests = resources.registryRequests
        notify = resources.notify
        self.shared = shared
        self.audit = audit
    }
}

/// The state that all generations of one service share. Belongs to the service's thread, except that any thread may
/// read the counts.
final class EnrolmentShared {
    var limits = AddressLimits()
    /// The pause of calls to Apple. The generation that received the refusal sets it.
    var receiptPause: (reason: RefreshSchedule.Pause, until: Instant)?
    /// The status list of Android's attestation keys. Nothing demands it until a generation has such apps.
    var keyStatus = KeyStatusRecord()
    /// The keys of admission tokens that were fetched.
    var issuerKeys = IssuerKeyRecord()
    /// The public keys of device tokens and client attestations.
    var tokenKeys = TokenKeys()
    private let counts: EnrolmentCounts

    init(_ counts: EnrolmentCounts) {
        self.counts = counts
    }

    func count(_ change: (inout EnrolmentMetrics) -> Void) { counts.change(change) }

    /// Forgets the status list when no app demands it any more.
    func dropStatusList() {
        keyStatus = KeyStatusRecord()
        count {
            $0.statusList = nil
            $0.revokedDevices = 0
        }
    }

    /// Forgets the keys of admission tokens when none are fetched any more.
    func dropIssuerKeys() {
        issuerKeys = IssuerKeyRecord()
        count { $0.issuerKeys = nil }
    }
}

/// The counts of one service, written by its thread.
final class EnrolmentCounts: Sendable {
    private let metrics = Mutex(EnrolmentMetrics())

    var current: EnrolmentMetrics { metrics.withLock { $0 } }

    func change(_ change: (inout EnrolmentMetrics) -> Void) { metrics.withLock { change(&$0) } }
}

/// The reason why a service cannot serve with some settings.
public struct EnrolmentStartError: Error, Equatable, CustomStringConvertible {
    /// A message for people.
    public let description: String

    package init(_ description: String) {
        self.description = description
    }
}
