package import EventLoop
internal import Synchronization
package import Upstream

/// Sends spans to a collector, from a thread of its own: a collector that is slow or gone slows no request.
///
/// For all workers and generations: `adopt` passes the changes of a reload.
package final class SpanExporter: Sendable {
    enum Message: Sendable {
        case batch(SpanBatch)
        case settings(ExportSettings)
        /// - flushes: what waits is sent once, for a moment.
        case stop(flushes: Bool)
    }

    package let counts = SpanExportCounts()
    private let mailbox: Mailbox<Message>
    private let thread = Mutex<LoopThread?>(nil)
    /// Nobody takes anything out of the mailbox any more.
    private let hasEnded = Atomic<Bool>(false)

    /// Blocks, of all workers; what they may hold is limited by their budgets.
    private static let limit = 4_096

    /// - Parameter tell: called on the exporter's thread with what people are to know, and whether it is a fault.
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
                // The settings were tried before: memory or descriptors. Spans are then dropped when the mailbox is full.
                tell("cannot begin: \(error)", true)
            }
        }
        thread.withLock { $0 = started }
    }

    /// - Returns: false if it was not taken.
    func post(_ batch: SpanBatch) -> Bool { mailbox.post(.batch(batch)) }

    /// From the next call on.
    package func adopt(_ settings: ExportSettings) { mailbox.post(.settings(settings)) }

    /// Ends the thread, after all workers. - Parameter flushes: whether what waits is still sent, which takes three seconds at
    /// most.
    package func stop(flushes: Bool) {
        guard let thread = thread.withLock({ $0.take() }) else { return }
        // The thread takes all it is given at once, so there is room soon.
        while !mailbox.post(.stop(flushes: flushes)), !hasEnded.load(ordering: .acquiring) { SpanSender.rest() }
        thread.join()
    }
}

/// Where spans go, and as whose. Plain values, files read.
package struct ExportSettings: Sendable {
    /// The value of Host.
    let host: String
    /// What comes before `/v1/traces`: nothing, or a slash and more.
    let path: String
    /// One server.
    package let upstream: UpstreamSettings
    let resolver: ResolverSettings
    let forbidden: ForbiddenAddresses
    /// For a call.
    let timeout: TimeSpan
    /// Of `Authorization: Bearer`; nil if none is sent.
    let token: String?
    /// What all spans have in common: names and values by OpenTelemetry's semantic conventions.
    let resource: [(key: String, value: ResourceValue)]
    /// Of the gateway.
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

    /// What stands before the spans in the content of a call: `ExportTraceServiceRequest` up to the list.
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

/// What a process can say of itself.
package enum ResourceValue: Sendable {
    case text(String)
    case number(Int)
}

/// Counts of the outcomes of spans, and of the calls that carry them. Read on another thread, for metrics.
package final class SpanExportCounts: Sendable {
    /// Of a span.
    package enum SpanOutcome: Int, CaseIterable, Sendable {
        /// The collector has taken it.
        case exported
        /// The collector took the call it came in, but not the span.
        case rejected
        /// The collector refuses the call for good: it would again.
        case refused
        /// The collector could not be reached for too long.
        case expired
        /// As much as may wait does.
        case queueFull
        /// More requests than are recorded in a second.
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

    /// Of a call.
    package enum Outcome: Int, CaseIterable, Sendable {
        case accepted
        case refused
        /// It is made again.
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

    /// Once for a block, or for what is dropped: not for each span that goes its way.
    func add(_ count: Int, _ fate: SpanOutcome) { spans.withLock { $0[fate.rawValue] += count } }
    func add(_ outcome: Outcome) { calls.withLock { $0[outcome.rawValue] += 1 } }

    package func count(of fate: SpanOutcome) -> Int { spans.withLock { $0[fate.rawValue] } }
    package func count(of outcome: Outcome) -> Int { calls.withLock { $0[outcome.rawValue] } }
}
