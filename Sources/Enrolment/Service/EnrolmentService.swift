public import Bytes
public import Cryptography
public import EventLoop
public import Registry
public import Telemetry

/// The service of the enrolment endpoints, with its own thread. It shares neither loop nor library context with the
/// workers, because it verifies attestations and holds the CA's key.
public final class EnrolmentService: Sendable {
    public let control: ServiceControl<EnrolmentSettings>
    private let counts: EnrolmentCounts

    /// Starts the thread. A report follows when it serves.
    ///
    /// - Parameters:
    ///   - settings: Settings that `check` has accepted.
    ///   - sockets: Descriptors of listening sockets by the listeners' names. Takes ownership.
    ///   - memory: The budget of the process.
    ///   - audit: Receives each decision, on the service's thread.
    ///   - report: Called on the service's thread.
    ///   - failed: Called on that thread if it cannot begin, because memory or descriptors are exhausted.
    public init(
        _ settings: EnrolmentSettings, sockets: [String: Int32], registry: DeviceRegistry, memory: MemoryBudget,
        audit: @escaping @Sendable (EnrolmentDecision) -> Void, report: @escaping @Sendable (ServiceReport) -> Void,
        failed: @escaping @Sendable (String) -> Void
    ) throws(EventLoopError) {
        let counts = EnrolmentCounts()
        self.counts = counts
        control = try ServiceControl(
            "enrolment", settings, sockets: sockets, registry: registry, memory: memory, report: report, failed: failed
        ) { resources in
            let context = EnrolmentContext(resources, shared: EnrolmentShared(counts), audit: audit)
            return { settings, identity in try EnrolmentGeneration(settings, identity, context) }
        }
    }

    /// Checks settings by building everything except the service itself.
    ///
    /// - Parameter library: A context of the calling thread.
    public static func check(_ settings: EnrolmentSettings, _ library: LibraryContext) throws(EnrolmentStartError) {
        try EnrolmentGeneration.check(settings, library)
    }

    /// The metrics for a scrape. May be read by any thread.
    public var families: [MetricFamily] { counts.current.families }

    /// The counts of receipt refreshes. Nil if there are none. May be read by any thread.
    public var receipts: ReceiptMetrics? { counts.current.receipts }

    /// The state of the status list. Nil if nothing demands it. May be read by any thread.
    public var statusList: FetchMetrics? { counts.current.statusList }
    /// The state of the keys of admission tokens. Nil if none are fetched.
    public var issuerKeys: FetchMetrics? { counts.current.issuerKeys }
}
