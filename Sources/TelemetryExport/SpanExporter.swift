package import EventLoop
internal import Synchronization
package import Upstream

/// The exporter of spans to a collector, with its own thread. A slow or absent collector delays no request.
///
/// It serves all workers and generations. `adopt` applies the changes of a reload.
package final class SpanExporter: Sendable {
    enum Message: Sendable {
        case batch(SpanBatch)
        case settings(ExportSettings)
        /// - flushes: Whether waiting spans are sent once, for a short time.
        case stop(flushes: Bool)
    }

    package let counts = SpanExportCounts()
    private let mailbox: Mailbox<Message>
    private let thread = Mutex<LoopThread?>(nil)
    /// Whether the thread has stopped reading the mailbox.
    private let hasEnded = Atomic<Bool>(false)

    /// Limit of waiting batches of all workers. Their size is limited by the workers' budgets.
    private static let limit = 4_096

    /// Starts the exporter.
    ///
    /// - Parameter tell: Called on the exporter's thread with a message for people, and whether it is a fault.
    package init(
        _ settings: ExportSettings, tell: @escaping @Sendable (_ text: String, _ isFault: Bool) -> Void
    ) throws(EventLoopError) {
        let mailbox = try Mailbox<Message>(limit: Self.limit)
        self.mailbox = mailbox
        let started = try LoopThread(name: "spans") { [self] in
            defer { hasEnded.store(true, ordering: .releasing) }
            do {
                let loop = try Loop()
                let sender = try SpanSender(settings, loop: loop, counts: counts, tell: tell)
                let receiver = MailboxReceiver(loop: loop, mailbox: mailbox) { sender.receive($0) }
                withExtendedLifetime(receiver) { loop.run() }
                sender.close()
            } catch {
                // The settings were tested before, so memory or descriptors are exhausted. Spans are dropped when the
                // mailbox is full.
                tell("cannot begin: \(error)", true)
            }
        }
        thread.withLock { $0 = started }
    }

    /// Passes spans to the exporter.
    ///
    /// - Returns: false if the mailbox is full.
    func post(_ batch: SpanBatch) -> Bool { mailbox.post(.batch(batch)) }

    /// Applies new settings from the next call on.
    package func adopt(_ settings: ExportSettings) { mailbox.post(.settings(settings)) }

    /// Ends the thread. Call it after the end of all workers.
    ///
    /// - Parameter flushes: Whether waiting spans are sent, which takes at most three seconds.
    package func stop(flushes: Bool) {
        guard let thread = thread.withLock({ $0.take() }) else { return }
        // The thread empties the mailbox at once, so there will be room soon.
        while !mailbox.post(.stop(flushes: flushes)), !hasEnded.load(ordering: .acquiring) { SpanSender.rest() }
        thread.join()
    }
}

/// The target of spans and the description of their source. Plain values; files were read before.
package struct ExportSettings: Sendable {
    /// The value of Host.
    let host: String
    /// The path before `/v1/traces`: empty, or a slash and more.
    let path: String
    /// The collector, an upstream with one server.
    package let upstream: UpstreamSettings
    let resolver: ResolverSettings
    let forbidden: ForbiddenAddresses
    /// The timeout of a call.
    let timeout: TimeSpan
    /// The token of `Authorization: Bearer`. Nil if none is sent.
    let token: String?
    /// The attributes of all spans: names and values of OpenTelemetry's semantic conventions.
    let resource: [(key: String, value: ResourceValue)]
    /// The version of the gateway.
    let version: String

    package init(
        host: String, path: String, upstream: UpstreamSettings, resolver: ResolverSettings,
        forbidden: ForbiddenAddresses,
        timeout: TimeSpan, token: String?, resource: [(key: String, value: ResourceValue)],
        version: String
    ) {
        self.host = host
        self.path = path
        self.upstream = upstream
        self.resolver = resolver
        self.forbidden = forbidden
        self.timeout = timeout
        self.token = token
        self.resource = resource
        self.version = version
    }

    /// The content of a call before its spans: the beginning of `ExportTraceServiceRequest` up to the list.
    var opening: [UInt8] {
        let attributes = resource.map { key, value in
            let text =
                switch value {
                case .text(let text): "\"stringValue\":\(quote(text))"
                case .number(let number): "\"intValue\":\"\(number)\""
                }
            return "{\"key\":\(quote(key)),\"value\":{\(text)}}"
        }
        return Array(
            ("{\"resourceSpans\":[{\"resource\":{\"attributes\":[\(attributes.joined(separator: ","))]},"
                + "\"scopeSpans\":[{\"scope\":{\"name\":\"attestgate\",\"version\":\(quote(version))},\"spans\":[").utf8
        )
    }

    static let closing = Array("]}]}]}".utf8)

    private func quote(_ text: String) -> String {
        var quoted = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"", "\\": quoted += "\\\(scalar)"
            case _ where scalar.value < 0x20: quoted += " "
            default: quoted.unicodeScalars.append(scalar)
            }
        }
        return quoted + "\""
    }
}

/// The value of a resource attribute.
package enum ResourceValue: Sendable {
    case text(String)
    case number(Int)
}

/// Counts of the outcomes of spans and calls. Another thread reads them for metrics.
package final class SpanExportCounts: Sendable {
    /// The outcome of a span.
    package enum SpanOutcome: Int, CaseIterable, Sendable {
        /// The collector accepted the span.
        case exported
        /// The collector accepted the call, but not the span.
        case rejected
        /// The collector refused the call permanently.
        case refused
        /// The collector could not be reached for too long.
        case expired
        /// The limit of waiting spans was reached.
        case queueFull
        /// The limit of recorded requests per second was reached.
        case rateLimited

        package var name: String {
            switch self {
            case .exported: "exported"
            case .rejected: "rejected"
            case .refused: "refused"
            case .expired: "expired"
            case .queueFull: "queue_full"
            case .rateLimited: "rate_limited"
            }
        }
    }

    /// The outcome of a call.
    package enum Outcome: Int, CaseIterable, Sendable {
        case accepted
        case refused
        /// The call failed and is repeated.
        case failed

        package var name: String {
            switch self {
            case .accepted: "accepted"
            case .refused: "refused"
            case .failed: "failed"
            }
        }
    }

    private let spans = Mutex([Int](repeating: 0, count: SpanOutcome.allCases.count))
    private let calls = Mutex([Int](repeating: 0, count: Outcome.allCases.count))

    package init() {}

    /// Adds to a count. It is called once for a batch, not for each span.
    func add(_ count: Int, _ fate: SpanOutcome) { spans.withLock { $0[fate.rawValue] += count } }
    func add(_ outcome: Outcome) { calls.withLock { $0[outcome.rawValue] += 1 } }

    package func count(of fate: SpanOutcome) -> Int { spans.withLock { $0[fate.rawValue] } }
    package func count(of outcome: Outcome) -> Int { calls.withLock { $0[outcome.rawValue] } }
}
