internal import Bytes
internal import Cryptography
internal import EventLoop
internal import Foundation
internal import Glibc
internal import Upstream

/// The exporter on its thread: what waits, the call that is under way, and when the next one begins.
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
    /// Those that take the place of the above when no call is under way.
    private var next: ExportSettings?
    private var schedule = ExportSchedule()
    private var waiting: [SpanBatch] = []
    /// Of them, those that the call under way, or the next one, has.
    private var sending = 0
    private var call: OutboundCall?
    private var timer: LoopTimer?
    private var isPausing = false
    private var isStopping = false
    private var patience: LoopTimer?

    /// Octets of spans in one call.
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

    /// Lets go of everything that refers to the loop.
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

    // MARK: - Where the collector is

    /// Finds out, and keeps that up to date. Spans wait meanwhile, for a moment.
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

    // MARK: - Calling

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
            // Without the comma that it begins with.
            content += sending == 0 ? batch.text.dropFirst() : batch.text[...]
            sending += 1
        }
        content += ExportSettings.closing
        let request = OutboundRequest(
            post: settings.path + "/v1/traces", host: settings.host,
            fields: [("Content-Type", "application/json"), ("Accept-Encoding", "identity")] + authorization,
            content: content)
        // A collector may get spans twice rather than not at all: ids tell them.
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
        // Reported below, with the number of spans.
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
        // A stopping exporter tries once.
        if isStopping, schedule.failures > 0 { return loop.stop() }
        guard pause.nanoseconds > 0 else { return turn() }
        isPausing = true
        timer?.start(after: pause)
    }

    /// - Parameter but: of their spans, so many are counted elsewhere.
    private func drop(_ count: Int, _ fate: SpanExportCounts.SpanOutcome, but others: Int = 0) {
        let gone = waiting[..<count]
        counts.add(gone.reduce(0) { $0 + $1.count } - others, fate)
        for batch in gone { batch.budget.give(batch.text.count) }
        waiting.removeFirst(count)
    }

    // MARK: - The end

    private func stop(flushes: Bool) {
        isStopping = true
        guard flushes else { return loop.stop() }
        patience = LoopTimer(loop: loop, interval: Self.flushPatience) { [unowned self] in loop.stop() }
        if schedule.failures > 0 { return loop.stop() }
        turn()
    }

    static func rest() { usleep(1_000) }
}

/// What a collector's answer means (OTLP specification, "OTLP/HTTP Response").
enum ExportAnswer: Equatable {
    /// - rejected: spans of it that the collector has not taken; it says so once and for all.
    case accepted(rejected: Int)
    /// It may be sent again. - after: seconds to wait at least, if the collector says.
    case again(after: Int64?, reason: String)
    case refused(reason: String)

    init(_ result: Result<OutboundAnswer, OutboundFailure>) {
        switch result {
        // What it was, it has said; that there is more than anybody reads makes no difference to it, and the spans may not go twice.
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

    /// `{"partialSuccess": {"rejectedSpans": "3"}}`, where JSON has 64-bit integers as strings, and readers take numbers too.
    private static func rejected(_ content: [UInt8]) -> Int {
        guard let object = try? JSONSerialization.jsonObject(with: Data(content)) as? [String: Any],
            let partial = object["partialSuccess"] as? [String: Any]
        else { return 0 }
        let text = partial["rejectedSpans"] as? String
        return max(0, text.flatMap { Int($0) } ?? partial["rejectedSpans"] as? Int ?? 0)
    }
}
