public import Bytes
public import Cryptography
public import Enrolment
public import EventLoop
public import Registry
internal import Server
public import Telemetry

/// The service of the federation's endpoints, with its own thread.
public final class FederationServer: Sendable {
    public let control: ServiceControl<FederationSettings>
    private let counts: FederationCounts

    /// Starts the thread. A report follows when it serves. The parameters are those of `EnrolmentService`.
    public init(
        _ settings: FederationSettings, sockets: [String: Int32], registry: DeviceRegistry, memory: MemoryBudget,
        audit: @escaping @Sendable (FederationDecision) -> Void, report: @escaping @Sendable (ServiceReport) -> Void,
        failed: @escaping @Sendable (String) -> Void
    ) throws(EventLoopError) {
        let counts = FederationCounts()
        self.counts = counts
        control = try ServiceControl(
            "federation", settings, sockets: sockets, registry: registry, memory: memory, report: report,
            failed: failed
        ) { resources in
            let context = FederationContext(resources: resources, shared: FederationShared(counts), audit: audit)
            return { settings, identity in try FederationGeneration(settings, identity, context) }
        }
    }

    /// Checks settings by building everything except the service itself.
    ///
    /// - Parameter library: A context of the calling thread.
    public static func check(_ settings: FederationSettings, _ library: LibraryContext) throws(EnrolmentStartError) {
        _ = try ServiceListening.contexts(
            of: settings.listeners, connections: settings.server.connections, library)
    }

    /// The metrics for a scrape. May be read by any thread.
    public var families: [MetricFamily] { counts.current.families }
    /// The counts for the status. May be read by any thread.
    public var metrics: FederationMetrics { counts.current }
}
