internal import Cryptography
internal import EventLoop
internal import Registry
internal import Upstream
internal import Vocabulary

/// Asks Apple for newer receipts: takes devices that are due from the registry, calls, and has what comes written down. Which
/// call may begin, and when a device is due again, is decided by `RefreshSchedule`.
///
/// One generation's. What it has taken and not brought to an end when it stops is due again at once; after a crash, when its
/// claim ends.
final class ReceiptRefresher {
    let settings: ReceiptSettings
    let rules: EnrolmentRules
    private let services: ReceiptServices
    let figures: ReceiptFigureCollector
    let surroundings: EnrolmentGeneration.EnrolmentContext
    var schedule: RefreshSchedule
    private var token: RefreshToken

    /// Claimed, looked at, and worth a call; in the order in which they were due.
    private var waiting: [ReceiptWork] = []
    private var calls: [DeviceID: (call: OutboundCall, work: ReceiptWork)] = [:]
    private var isClaiming = false
    private var ticker: LoopTimer?
    private var ticks = 0
    private var starter: LoopTimer?

    /// How often new devices are looked for.
    private static let interval = TimeSpan.milliseconds(500)
    /// So many times until figures are brought up to date.
    private static let figuresInterval = 4
    private static let claimLimit = 8
    /// Longer than what is claimed takes at one call a minute; how long a crash keeps a device from being asked about.
    private static let claimLife: Int64 = 15 * 60

    init(
        _ settings: ReceiptSettings, _ apps: [EnrolmentSettings.App], _ rules: EnrolmentRules,
        _ surroundings: EnrolmentGeneration.EnrolmentContext
    ) throws(EnrolmentStartError) {
        self.settings = settings
        self.rules = rules
        self.surroundings = surroundings
        figures = ReceiptFigureCollector(apps, surroundings)
        schedule = RefreshSchedule(
            RefreshSchedule.Rules(
                concurrency: settings.concurrency, callsPerMinute: settings.callsPerMinute, interval: settings.interval,
                retry: settings.retry))
        token = try Self.token(settings, surroundings.library)
        services = try ReceiptServices(settings, surroundings)
    }

    /// Finds what is wrong with the settings without asking anybody.
    static func check(_ settings: ReceiptSettings, _ library: LibraryContext) throws(EnrolmentStartError) {
        _ = try token(settings, library)
    }

    private static func token(
        _ settings: ReceiptSettings, _ library: LibraryContext
    ) throws(EnrolmentStartError) -> RefreshToken {
        do throws(CryptographyError) {
            return try RefreshToken(team: settings.team, keyID: settings.keyID, pem: settings.key, library)
        } catch {
            throw EnrolmentStartError("receipts: key: \(error)")
        }
    }

    // MARK: - From begin to stop

    /// Begins in an event of its own: the refresher before, which this one takes over from, has stopped then.
    func begin() {
        surroundings.shared.count { metrics in
            if metrics.receipts == nil { metrics.receipts = ReceiptMetrics() }
        }
        starter = LoopTimer(loop: surroundings.loop, startsIn: TimeSpan(nanoseconds: 0)) { [unowned self] in
            services.find { [unowned self] in start() }
        }
    }

    private func start() {
        guard starter != nil else { return }
        if ticker == nil {
            schedule.resume(surroundings.shared.receiptPause)
            ticker = LoopTimer(loop: surroundings.loop, interval: Self.interval, repeats: true) { [unowned self] in
                turn()
                ticks += 1
                if ticks % Self.figuresInterval == 0 { figures.ask(at: now) }
            }
            figures.ask(at: now)
        }
        turn()
    }

    func stop() {
        guard starter != nil else { return }
        ticker = nil
        starter = nil
        services.leave()
        surroundings.shared.receiptPause = schedule.pause
        for (call, work) in calls.values {
            call.stop()
            release(work)
        }
        calls = [:]
        for work in waiting { release(work) }
        waiting = []
    }

    var isRunning: Bool { ticker != nil }
    var now: Int64 { WallClock.seconds }
    var instant: Instant { surroundings.loop.now }

    /// Begins what may begin now, and takes more when there is nothing left.
    private func turn() {
        guard isRunning else { return }
        if schedule.isPaused(at: instant) {
            for work in waiting { release(work) }
            waiting = []
        }
        publishPause()
        while let work = waiting.first {
            if work.claimEnd <= now {
                waiting.removeFirst()
            } else if schedule.begin(at: instant) {
                waiting.removeFirst()
                ask(work)
            } else {
                // Where no place is free, the end of a call comes back here.
                if !schedule.isFull { starter?.start(after: schedule.wait(at: instant)) }
                return
            }
        }
        if !schedule.isPaused(at: instant), !schedule.isFull { claim() }
    }

    private func publishPause() {
        let pause = schedule.isPaused(at: instant) ? schedule.pause?.reason : nil
        surroundings.shared.count { $0.receipts?.pause = pause }
    }

    // MARK: - Claiming

    private func claim() {
        guard !isClaiming else { return }
        isClaiming = true
        let end = now + Self.claimLife
        let claim = ReceiptClaim(at: now, until: end, limit: Self.claimLimit)
        surroundings.questions.ask(.claimReceipts(claim)) { [weak self] result in
            guard let self else { return }
            isClaiming = false
            // Asked again with the next tick.
            guard case .success(.claimedReceipts(let claimed)) = result else { return }
            for device in claimed.devices { examine(device, until: end) }
            if claimed.isMoreDue || !waiting.isEmpty { turn() }
        }
    }

    private func examine(_ device: DeviceDetails, until end: Int64) {
        guard let receipt = device.attestation?.receipt else { return }
        let identity = device.device.identity
        let service = services.firstIndex(for: identity.environment)
        guard let service, let app = try? rules.app(of: identity).0 else {
            return record(device, receipt, .unasked, .unasked, times: nil)
        }
        switch app.receipts.examine(receipt, of: identity, now: now) {
        case .exchangeable(let times):
            let work = ReceiptWork(
                device: device, receipt: receipt, times: times, judge: app.receipts, service: service, claimEnd: end)
            if isRunning { waiting.append(work) } else { release(work) }
        case .waiting(let times, _): record(device, receipt, .waiting, .waiting, times: times)
        case .expired: record(device, receipt, .expired, .expired, times: nil)
        // Only `device show` reports these: if phones send invalid receipts, there may be one for each device.
        case .unverified:
            record(device, receipt, .unverified, .unverified, times: nil)
        }
    }

    // MARK: - Calling

    private func ask(_ work: ReceiptWork) {
        let authorization: String
        do throws(CryptographyError) { authorization = try token.text(now: now) } catch {
            tell(.error, "failed", work.device, because: "a token cannot be created: \(error)")
            return ended(work, .failed("token"))
        }
        let call = services.call(work, authorization) { [weak self] result in
            guard let self, calls.removeValue(forKey: work.device.device.id) != nil else { return }
            ended(work, RefreshAnswer(result))
        }
        calls[work.device.device.id] = (call, work)
        call.start(timeout: settings.timeout)
    }

    private func ended(_ work: ReceiptWork, _ answer: RefreshAnswer) {
        let beginsPause = schedule.ended(answer, at: instant)
        conclude(work, answer)
        if beginsPause, let pause = schedule.pause {
            surroundings.tell(.paused(pause.reason, seconds: (pause.until - instant).nanoseconds / 1_000_000_000))
        }
        turn()
    }
}

/// The outcome of a device's turn: counted, reported and stored.
extension ReceiptRefresher {
    func conclude(_ work: ReceiptWork, _ answer: RefreshAnswer) {
        let device = work.device
        switch answer {
        case .receipt(let bytes): keep(bytes, work)
        case .unchanged:
            count(.unchanged)
            tell(.info, "unchanged", device)
            record(work, .unchanged, .unchanged)
        case .malformed:
            count(.malformed)
            tell(.warning, "malformed", device, because: "Apple does not accept the receipt as its own")
            record(work, .malformed, .malformed)
        case .unknown:
            count(.unknown)
            tell(.info, "unknown", device, because: "Apple does not know the device")
            record(work, .unknown, .unknown)
        // Nothing that concerns the device: it keeps its turn.
        case .tokenRefused:
            count(.tokenRefused)
            tell(.error, "failed", device, because: "\(host(of: work)): token_refused: status 401")
            record(work, .failed, .paused)
        case .tooMany:
            count(.throttled)
            tell(.warning, "failed", device, because: "\(host(of: work)): throttled: status 429")
            record(work, .failed, .paused)
        case .failed(let reason):
            count(.failed)
            tell(.warning, "failed", device, because: "\(host(of: work)): \(reason)")
            record(work, .failed, .failed)
        }
    }

    /// Who was asked.
    private func host(of work: ReceiptWork) -> String { settings.services[work.service].host }

    private func keep(_ bytes: [UInt8], _ work: ReceiptWork) {
        do throws(FreshReceiptFault) {
            let fields = try work.judge.judge(bytes, of: work.device.device.identity, kept: work.times, now: now)
            guard let newer = ReceiptResult.NewerReceipt(content: bytes, riskMetric: fields.riskMetric) else {
                throw .receipt(.tooLong)
            }
            count(.refreshed)
            let highest = try? rules.app(of: work.device.device.identity).0.settings.maximumRisk
            let isAbove = highest.flatMap { highest in fields.riskMetric.map { $0 > highest } } ?? false
            tell(
                isAbove ? .warning : .info, "refreshed", work.device, risk: fields.riskMetric,
                because: isAbove ? "above maximum_risk" : nil)
            let times = ReceiptTimes(createdAt: fields.creation.seconds, notBefore: fields.notBefore?.seconds)
            record(work.device, work.receipt, .refreshed, .refreshed, times: times, newer: newer, askedAt: now)
        } catch {
            count(.refused)
            tell(.warning, "refused", work.device, because: "the received receipt was not stored: \(error.reason)")
            record(work, .refused, .refused)
        }
    }

    // MARK: - Settling

    private func record(_ work: ReceiptWork, _ outcome: ReceiptOutcome, _ decided: RefreshSchedule.DeviceOutcome) {
        record(work.device, work.receipt, outcome, decided, times: work.times, askedAt: now)
    }

    func record(
        _ device: DeviceDetails, _ previous: [UInt8], _ outcome: ReceiptOutcome,
        _ decided: RefreshSchedule.DeviceOutcome, times: ReceiptTimes?, newer: ReceiptResult.NewerReceipt? = nil,
        askedAt: Int64? = nil
    ) {
        let failures = failures(of: device, after: decided)
        let next = schedule.next(
            after: decided, notBefore: times?.notBefore, failures: failures, now: now, at: instant)
        send(
            ReceiptResult(
                device: device.device.id, previous: previous, newer: newer, createdAt: times?.createdAt, nextAt: next,
                askedAt: askedAt, outcome: outcome, failures: failures))
        if newer != nil, isRunning { figures.ask(at: now) }
    }

    private func failures(of device: DeviceDetails, after decided: RefreshSchedule.DeviceOutcome) -> Int {
        let before = device.refresh?.failures ?? 0
        switch decided {
        case .malformed, .refused, .failed: return before + 1
        case .paused, .waiting, .unasked: return before
        case .refreshed, .unchanged, .unknown, .expired, .unverified: return 0
        }
    }

    /// Gives back what was claimed and not asked about.
    func release(_ work: ReceiptWork) {
        send(
            ReceiptResult(
                device: work.device.device.id, previous: work.receipt, createdAt: work.times.createdAt, nextAt: now,
                askedAt: nil, outcome: nil, failures: work.device.refresh?.failures ?? 0))
    }

    /// What cannot be written down now is due again when the claim ends.
    private func send(_ result: ReceiptResult) { surroundings.questions.ask(.recordReceipt(result)) { _ in } }

    // MARK: - Telling

    private func count(_ result: ReceiptMetrics.Result) { surroundings.shared.count { $0.receipts?.count(result) } }

    func tell(
        _ severity: ReceiptNotice.Severity, _ outcome: String, _ device: DeviceDetails, risk: UInt32? = nil,
        because reason: String? = nil
    ) {
        let identity = device.device.identity
        surroundings.tell(
            ReceiptNotice(
                severity, outcome, device: rules.label(of: identity.hardwareKey), app: identity.app.description,
                risk: risk, because: reason))
    }
}
