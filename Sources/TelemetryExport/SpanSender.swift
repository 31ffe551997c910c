internal import Bytes
internal import Cryptography
internal import EventLoop
internal import Foundation
internal import Glibc
internal import Upstream

/// The state of the exporter on its thread: waiting spans, the call in-flight, and the time of the next call.
final class SpanSender {
    private let loop: Loop
    private let buffers = BufferPool()
    private let library: LibraryContext
    private let counts: SpanExportCounts
    private let tell: @Sendable (String, Bool) -> Void
    private var settings: ExportSettings
    private var opening: [UInt8]
    private var authorization: [(name: String, value: String)]
    private var pool: UpstreamPool
    private var names: NameBook?
    /// Settings that replace the present ones as soon as no call is in-flight.
    private var next: ExportSettings?
    private var schedule = ExportSchedule()
    private var waiting: [SpanBatch] = []
    /// The number of waiting batches in the call in-flight or the next one.
    private var sending = 0
    private var call: OutboundCall?
    private var timer: LoopTimer?
    private var isPausing = false
    private var isStopping = false
    private var patience: LoopTimer?

    /// Limit of a call's spans in bytes.
    private static let callSize = 1 << 20
    private static let namePatience = TimeSpan.seconds(2)
    private static let flushPatience = TimeSpan.seconds(3)

    init(
        _ settings: ExportSettings, loop: Loop, counts: SpanExportCounts,
        tell: @escaping @Sendable (String, Bool) -> Void
    ) throws {
        self.settings = settings
        self.loop = loop
        self.counts = counts
        self.tell = tell
        library = try LibraryContext()
        (opening, authorization) = (settings.opening, Self.authorization(settings))
        pool = try Self.pool(settings, loop, buffers, library)
        timer = LoopTimer(loop: loop, startsIn: nil) { [unowned self] in
            isPausing = false
            turn()
        }
        find()
    }

    func receive(_ message: SpanExporter.Message) {
        switch message {
        case .batch(let batch):
            waiting.append(batch)
            turn()
        case .settings(let settings):
            next = settings
            turn()
        case .stop(let flushes): stop(flushes: flushes)
        }
    }

    /// Releases everything that refers to the loop.
    func close() {
        call?.stop()
        call = nil
        timer = nil
        patience = nil
        names = nil
        drop(waiting.count, .expired)
        pool.close()
    }

    private static func pool(
        _ settings: ExportSettings, _ loop: Loop, _ buffers: BufferPool, _ library: LibraryContext
    ) throws(CryptographyError) -> UpstreamPool {
        try UpstreamPool(
            loop: loop, buffers: buffers, settings: settings.upstream,
            tallies: settings.upstream.servers.map { _ in ServerTally() }, library: library)
    }

    private static func authorization(_ settings: ExportSettings) -> [(name: String, value: String)] {
        settings.token.map { [("Authorization", "Bearer \($0)")] } ?? []
    }

    // MARK: - Address of the collector

    /// Resolves the collector's name and keeps the addresses current. Spans wait for the first result.
    private func find() {
        let named = settings.upstream.servers.compactMap(\.resolved)
        names = nil
        guard !named.isEmpty else { return }
        let names = NameBook(loop: loop, settings: settings.resolver, forbidden: settings.forbidden)
        self.names = names
        names.onChange = { [unowned self] servers in
            for server in servers { pool.readdress(server, to: self.names?.addresses(of: server) ?? []) }
        }
        names.follow(Set(named))
        isPausing = true
        names.whenAnswered(within: Self.namePatience) { [weak self] in
            self?.isPausing = false
            self?.turn()
        }
    }

    private func adopt(_ settings: ExportSettings) {
        do throws(CryptographyError) {
            let made = try Self.pool(settings, loop, buffers, library)
            pool.close()
            pool = made
            self.settings = settings
            (opening, authorization) = (settings.opening, Self.authorization(settings))
            schedule = ExportSchedule()
            isPausing = false
            find()
        } catch {
            tell("the new settings cannot be used: \(error)", true)
        }
    }

    // MARK: - Calls

    private func turn() {
        guard call == nil else { return }
        if let next {
            self.next = nil
            adopt(next)
        }
        guard !isPausing else { return }
        guard !waiting.isEmpty else { return isStopping ? loop.stop() : () }
        ask()
    }

    private func ask() {
        var content = opening
        sending = 0
        for batch in waiting {
            guard sending == 0 || content.count + batch.text.count <= Self.callSize else { break }
            // Without its leading comma.
            content += sending == 0 ? batch.text.dropFirst() : batch.text[...]
            sending += 1
        }
        content += ExportSettings.closing
        let request = OutboundRequest(
            post: settings.path + "/v1/traces", host: settings.host,
            fields: [("Content-Type", "application/json"), ("Accept-Encoding", "identity")] + authorization,
            content: content)
        // A call may be repeated. A collector recognizes spans by their ids and had better receive them twice than
        // never.
        let call = OutboundCall(request, on: pool, loop: loop, isRepeatable: true) { [unowned self] result in
            ended(ExportAnswer(result))
        }
        self.call = call
        call.start(timeout: settings.timeout)
    }

    private func ended(_ answer: ExportAnswer) {
        call = nil
        let (decision, news) = schedule.ended(answer, at: loop.now, chance: .random(in: 0...1))
        switch news {
        case .failing(let reason): tell("\(settings.host): \(reason): spans wait", true)
        case .refused(let reason): tell("\(settings.host): \(reason): spans are dropped", true)
        case .recovered: tell("\(settings.host): accepts spans again", false)
        // These are reported below, with the number of spans.
        case .rejecting, nil: break
        }
        var pause = TimeSpan(nanoseconds: 0)
        switch decision {
        case .done(let fate, let rejected):
            counts.add(fate == .exported ? .accepted : fate == .refused ? .refused : .failed)
            let spans = waiting[..<sending].reduce(0) { $0 + $1.count }
            let refused = min(rejected, spans)
            if news == .rejecting { tell("\(settings.host): refused \(refused) of \(spans) spans", true) }
            counts.add(refused, .rejected)
            drop(sending, fate, but: refused)
            pause = schedule.pause
        case .again(let wait):
            counts.add(.failed)
            pause = wait
        }
        // An exporter that stops tries once.
        if isStopping, schedule.failures > 0 { return loop.stop() }
        guard pause.nanoseconds > 0 else { return turn() }
        isPausing = true
        timer?.start(after: pause)
    }

    /// Removes the first batches.
    ///
    /// - Parameter but: The number of their spans that are counted elsewhere.
    private func drop(_ count: Int, _ fate: SpanExportCounts.SpanOutcome, but others: Int = 0) {
        let gone = waiting[..<count]
        counts.add(gone.reduce(0) { $0 + $1.count } - others, fate)
        for batch in gone { batch.budget.give(batch.text.count) }
        waiting.removeFirst(count)
    }

    // MARK: - End

    private func stop(flushes: Bool) {
        isStopping = true
        guard flushes else { return loop.stop() }
        patience = LoopTimer(loop: loop, interval: Self.flushPatience) { [unowned self] in loop.stop() }
        if schedule.failures > 0 { return loop.stop() }
        turn()
    }

    static func rest() { usleep(1_000) }
}

/// The meaning of a collector's answer (OTLP specification, "OTLP/HTTP Response").
enum ExportAnswer: Equatable {
    /// The call was accepted.
    ///
    /// - rejected: The number of its spans that the collector permanently refused.
    case accepted(rejected: Int)
    /// The call may be sent again.
    ///
    /// - after: The minimum number of seconds to wait, if the collector states it.
    case again(after: Int64?, reason: String)
    case refused(reason: String)

    init(_ result: Result<OutboundAnswer, OutboundFailure>) {
        switch result {
        // The status decides, even if the content is too long to read. The spans must not be sent twice.
        case .failure(.contentTooLarge(let status)): self.init(status: status, content: [], retryAfter: nil)
        case .failure(let failure): self = .again(after: nil, reason: failure.reason)
        case .success(let answer):
            self.init(status: answer.status, content: answer.content, retryAfter: answer.retryAfter)
        }
    }

    private init(status: UInt16, content: [UInt8], retryAfter: Int64?) {
        switch status {
        case 200..<300: self = .accepted(rejected: Self.rejected(content))
        // "Retryable Response Codes"
        case 429, 502, 503, 504: self = .again(after: retryAfter, reason: "status \(status)")
        default: self = .refused(reason: "status \(status)")
        }
    }

    /// Returns the number in `{"partialSuccess": {"rejectedSpans": "3"}}`. JSON has 64-bit integers as strings, and
    /// readers accept numbers too.
    private static func rejected(_ content: [UInt8]) -> Int {
        guard let object = try? JSONSerialization.jsonObject(with: Data(content)) as? [String: Any],
            let partial = object["partialSuccess"] as? [String: Any]
        else { return 0 }
        let text = partial["rejectedSpans"] as? String
        return max(0, text.flatMap { Int($0) } ?? partial["rejectedSpans"] as? Int ?? 0)
    }
}
