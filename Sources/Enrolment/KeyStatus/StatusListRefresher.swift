internal import Attestation
internal import Cryptography
internal import EventLoop
internal import Upstream

/// The refresher of the status list. It fetches the list, or reads its file, and keeps it for requests and the next
/// start. `FetchSchedule` decides when, `StatusListAnswer` what is taken.
///
/// It belongs to one generation. The list itself belongs to all generations with the same source.
final class StatusListRefresher {
    private enum State {
        case stopped
        /// The names of the service are being resolved.
        case starting(LoopTimer)
        case waiting(LoopTimer)
        case calling(OutboundCall, LoopTimer)
    }

    private let settings: StatusListSettings
    private let context: EnrolmentContext
    /// The connections to the service. Nil for a file.
    private let services: OutboundServices?
    private let report: FetchReport
    private var schedule: FetchSchedule
    private let review: EnrolledKeyReview
    private var state = State.stopped
    /// The mark of the file when it was last read.
    private var mark: StatusListFile.Mark?

    /// The interval at which time, and the file, are looked at.
    private static let interval = TimeSpan.seconds(1)

    init(
        _ settings: StatusListSettings, _ rules: EnrolmentRules, _ context: EnrolmentContext
    ) throws(EnrolmentStartError) {
        self.settings = settings
        self.context = context
        report = FetchReport(
            .statusList, \.statusList,
            FetchReport.Words(
                missing: "there is no list, so no Android phone can enrol",
                stale: "no Android phone can enrol until the list is confirmed",
                current: "Android phones can enrol again"),
            context)
        review = EnrolledKeyReview(context) { rules.label(of: $0.device.identity.hardwareKey) }
        schedule = FetchSchedule(
            FetchSchedule.Rules(
                interval: settings.interval, retry: settings.retry, staleAfter: settings.staleAfter))
        switch settings.source {
        case .file: services = nil
        case .service(let service, _):
            let notify = context.notify
            do throws(CryptographyError) {
                services = try OutboundServices(
                    [service.upstream], resolver: service.resolver, forbidden: service.forbidden, loop: context.loop,
                    buffers: context.pool, library: context.library
                ) { notify(EnrolmentNotice(.statusList, $0)) }
            } catch {
                throw EnrolmentStartError("status list: \(error)")
            }
        }
    }

    private var now: Int64 { WallClock.seconds }
    private var kept: KeyStatusRecord.Kept? { context.shared.keyStatus.kept }

    // MARK: - Start and stop

    /// Begins. The list of the last run, or of the previous generation, counts at once.
    func begin() {
        adoptRecord()
        compareEnrolled(isConfirmed: false)
        schedule.begin(age: context.shared.keyStatus.age(at: now), at: context.loop.now)
        if case .file = settings.source {
            readFile()
            state = .waiting(ticker())
        } else {
            // In a separate event. The previous refresher, which this one replaces, has then stopped.
            state = .starting(
                LoopTimer(loop: context.loop, startsIn: TimeSpan(nanoseconds: 0)) { [unowned self] in
                    services?.find { [weak self] in self?.ready() }
                })
        }
        publish()
    }

    private func ready() {
        guard case .starting = state else { return }
        state = .waiting(ticker())
        turn()
    }

    private func ticker() -> LoopTimer {
        LoopTimer(loop: context.loop, interval: Self.interval, repeats: true) { [unowned self] in turn() }
    }

    func stop() {
        if case .calling(let call, _) = state { call.stop() }
        state = .stopped
        review.stop()
        services?.leave()
    }

    /// Takes over the list of earlier settings, if it has the same source, or else the copy of the last run.
    private func adoptRecord() {
        var record = context.shared.keyStatus
        record.environments = settings.environments
        record.staleAfter = settings.staleAfter
        if record.source != settings.source.name {
            record.source = settings.source.name
            record.kept = loadCopy()
        }
        context.shared.keyStatus = record
        report.begin(source: settings.source.name)
    }

    // MARK: - Time

    private func turn() {
        defer { publish() }
        review.retry()
        guard case .waiting(let ticker) = state else { return }
        let isDue = schedule.due <= context.loop.now
        switch settings.source {
        case .file(let path): if isDue || StatusListFile.mark(of: path) != mark { readFile() }
        case .service(let service, _): if isDue { fetch(service, ticker) }
        }
    }

    private func publish() {
        let record = context.shared.keyStatus
        report.publish(
            age: record.age(at: now), isStale: record.isStale(at: now), entries: record.kept?.list.serials.count ?? 0)
    }

    // MARK: - Service

    private func fetch(_ service: FetchedService, _ ticker: LoopTimer) {
        guard let services else { return }
        let request = OutboundRequest(
            get: service.path, host: service.host,
            fields: [("Accept", "application/json"), ("Accept-Encoding", "identity")]
                + (kept?.validators.conditions ?? []))
        let call = OutboundCall(
            request, on: services.pools[0], loop: context.loop, contentLimit: AttestationStatusList.longest,
            isRepeatable: true
        ) { [weak self] result in
            guard let self, case .calling(_, let ticker) = state else { return }
            state = .waiting(ticker)
            conclude(StatusListAnswer(result, kept: kept?.list), service)
        }
        state = .calling(call, ticker)
        call.start(timeout: service.timeout)
    }

    private func conclude(_ answer: StatusListAnswer, _ service: FetchedService) {
        switch answer {
        case .list(let list, let text, let validators, _):
            keep(list, text, validators, at: now)
            save()
        case .unchanged:
            context.shared.keyStatus.kept?.confirmedAt = now
            ended(.unchanged)
            compareEnrolled(isConfirmed: true)
            save()
        case .refused(let reason): ended(.refused, because: "\(service.host): \(reason)")
        case .failed(let reason, _): ended(.failed, because: "\(service.host): \(reason)")
        }
        schedule.ended(answer.outcome, at: context.loop.now)
        publish()
    }

    private func loadCopy() -> KeyStatusRecord.Kept? {
        guard case .service(let service, let path) = settings.source else { return nil }
        do throws(StatusListFile.Fault) {
            // A copy of another service is no failure: the URL was changed.
            guard let copy = StatusListCopy(try StatusListFile.read(path).bytes) else {
                report.notify(.warning, because: "\(path) is not a copy of a list: it is not used")
                return nil
            }
            guard copy.source == service.url else { return nil }
            switch StatusListAnswer(copy.text, kept: nil) {
            case .list(let list, let text, _, _):
                return KeyStatusRecord.Kept(
                    list: list, confirmedAt: copy.confirmedAt, validators: copy.validators, text: text)
            case .refused(let reason): report.notify(.warning, because: "\(path) is not used: \(reason)")
            case .unchanged, .failed: break
            }
        } catch {
            if !error.isMissing { report.notify(.warning, because: "\(path) cannot be read: \(error.reason)") }
        }
        return nil
    }

    /// Keeps the list for the next start. Without it, phones could not enrol then until the service answers.
    private func save() {
        guard let kept, let path = settings.copyPath else { return }
        let copy = StatusListCopy(
            source: settings.source.name, confirmedAt: kept.confirmedAt, validators: kept.validators, text: kept.text)
        do throws(StatusListFile.Fault) { try StatusListFile.replace(path, with: copy.bytes) } catch {
            report.notify(.error, because: "\(path) cannot be written: \(error.reason)")
        }
    }

    // MARK: - File

    /// Reads the file. Its list was confirmed when the file was written.
    private func readFile() {
        guard case .file(let path) = settings.source else { return }
        let answer: StatusListAnswer
        do throws(StatusListFile.Fault) {
            let (bytes, mark) = try StatusListFile.read(path)
            self.mark = mark
            answer = StatusListAnswer(bytes, kept: kept?.list)
            if case .list(let list, _, _, _) = answer { keep(list, writtenAt: mark.modifiedAt) }
        } catch {
            mark = nil
            answer = .failed(error.reason, retryAfter: nil)
        }
        switch answer {
        case .list, .unchanged: break
        case .refused(let reason): ended(.refused, because: "\(path): \(reason)")
        case .failed(let reason, _): ended(.failed, because: "\(path): \(reason)")
        }
        schedule.ended(answer.outcome, at: context.loop.now)
        publish()
    }

    private func keep(_ list: AttestationStatusList, writtenAt time: Int64) {
        guard list == kept?.list else { return keep(list, at: time) }
        context.shared.keyStatus.kept?.confirmedAt = time
        ended(.unchanged)
        compareEnrolled(isConfirmed: true)
    }

    // MARK: - Results

    private func keep(
        _ list: AttestationStatusList, _ text: [UInt8] = [], _ validators: ContentValidators = ContentValidators(),
        at time: Int64
    ) {
        let before = kept?.list.serials ?? []
        context.shared.keyStatus.kept = KeyStatusRecord.Kept(
            list: list, confirmedAt: time, validators: validators, text: text)
        let (added, removed) = (list.serials.subtracting(before).count, before.subtracting(list.serials).count)
        ended(
            .updated,
            [LogFact("entries", list.serials.count), LogFact("added", added), LogFact("removed", removed)])
        compareEnrolled(isConfirmed: true)
    }

    /// Compares the phones that are enrolled with the list.
    ///
    /// - Parameter isConfirmed: Whether the source has just confirmed the list. That of the last run, and a file that
    ///   nobody writes any more, may be older than what another gateway has.
    private func compareEnrolled(isConfirmed: Bool) {
        guard let kept else { return }
        let isStale = context.shared.keyStatus.isStale(at: now)
        review.begin(kept.list.hexadecimalSerials, mayRelease: isConfirmed && !isStale)
    }

    private func ended(
        _ result: FetchMetrics.Result, _ details: [LogFact] = [], because reason: String? = nil
    ) {
        report.ended(result, details, because: reason, isMissing: kept == nil)
    }
}
