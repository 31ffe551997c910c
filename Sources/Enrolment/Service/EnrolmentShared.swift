internal import Bytes
internal import Cryptography
internal import EventLoop
internal import Registry
internal import Server
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

/// The limits of one client address: a token bucket of requests, and a number of open connections.
///
/// The memory is limited. If there are more addresses than buckets, some share one.
struct AddressLimits {
    /// The configured limits. Nil for no limit.
    struct Rates: Equatable, Sendable {
        /// The rate of requests, and the size of the burst.
        var requestsPerMinute: Int?
        var connections: Int?
    }

    private var buckets: BucketTable
    /// The open connections by address. The server limits their sum.
    private let connections = SharedCounts<AddressBlock>()

    /// Creates buckets.
    ///
    /// - Parameter limit: The number of buckets, 16 bytes each.
    init(limit: Int = 32_768) {
        buckets = BucketTable(limit: limit)
    }

    /// Counts one request.
    ///
    /// - Returns: nil if it is permitted, else the number of seconds until one is.
    mutating func takeRequest(of client: AddressBlock, _ rates: Rates, now: Instant) -> Int? {
        guard let perMinute = rates.requestsPerMinute else { return nil }
        let rate = Rate(perMinute, per: .seconds(60), burst: perMinute)
        return buckets.take(of: client.hashValue, rate, now: now)?.wholeSeconds
    }

    /// Counts one more connection if it is permitted.
    ///
    /// - Returns: whether it is permitted.
    func openConnection(of client: AddressBlock, _ rates: Rates) -> Bool {
        connections.take(for: client, limit: rates.connections ?? .max)
    }

    func closeConnection(of client: AddressBlock) { connections.give(of: client) }
}

/// The reason why enrolment cannot be served with some settings.
public struct EnrolmentStartError: Error, Equatable, CustomStringConvertible {
    /// A message for people.
    public let description: String

    init(_ description: String) {
        self.description = description
    }
}
