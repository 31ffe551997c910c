internal import Cryptography
internal import EventLoop
internal import Registry
internal import Upstream
internal import Vocabulary

/// The refresher of receipts. It claims due devices from the registry, calls Apple and stores the results.
/// `RefreshSchedule` decides when calls begin and when a device is due again.
///
/// It belongs to one generation. Claimed devices that are unfinished when it stops are due again at once. After a crash
/// they are due when the claim ends.
final class ReceiptRefresher {
    let settings: ReceiptSettings
    let rules: EnrolmentRules
    private let services: ReceiptServices
    private let figures: ReceiptFigureCollector
    let context: EnrolmentContext
    var schedule: RefreshSchedule
    private var token: RefreshToken

    /// Claimed and examined devices that are worth a call, in the order in which they were due.
    private var waiting: [ReceiptWork] = []
    private var calls: [DeviceID: (call: OutboundCall, work: ReceiptWork)] = [:]
    private var isClaiming = false
    private var ticker: LoopTimer?
    private var ticks = 0
    private var starter: LoopTimer?

    /// The interval between searches for due devices.
    private static let interval = TimeSpan.milliseconds(500)
    /// The number of searches between updates of the figures.
    private static let figuresInterval = 4
    private static let claimLimit = 8
    /// The time in seconds for which a claim lasts. It is longer than the claimed devices take at one call a minute,
    /// and delays them after a crash.
    private static let claimLife: Int64 = 15 * 60

    init(
        _ settings: ReceiptSettings, _ apps: [EnrolmentSettings.App], _ rules: EnrolmentRules,
        _ context: EnrolmentContext
    ) throws(EnrolmentStartError) {
        self.settings = settings
        self.rules = rules
        self.context = context
        figures = ReceiptFigureCollector(apps, context)
        schedule = RefreshSchedule(
            RefreshSchedule.Rules(
                concurrency: settings.concurrency, callsPerMinute: settings.callsPerMinute, interval: settings.interval,
                retry: settings.retry))
        token = try Self.token(settings, context.library)
        services = try ReceiptServices(settings, context)
    }

    /// Checks the settings without calling anyone.
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

    // MARK: - Start and stop

    /// Begins in a separate event. The previous refresher, which this one replaces, has then stopped.
    func begin() {
        context.shared.count { metrics in
            if metrics.receipts == nil { metrics.receipts = ReceiptMetrics() }
        }
        starter = LoopTimer(loop: context.loop, startsIn: TimeSpan(nanoseconds: 0)) { [unowned self] in
            services.find { [unowned self] in start() }
        }
    }

    private func start() {
        guard starter != nil else { return }
        if ticker == nil {
            schedule.resume(context.shared.receiptPause)
            ticker = LoopTimer(loop: context.loop, interval: Self.interval, repeats: true) { [unowned self] in
                turn()
                ticks += 1
                if ticks % Self.figuresInterval == 0 { figures.update(at: now) }
            }
            figures.update(at: now)
        }
        turn()
    }

    func stop() {
        guard starter != nil else { return }
        ticker = nil
        starter = nil
        services.leave()
        context.shared.receiptPause = schedule.pause
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
    var instant: Instant { context.loop.now }

    /// Starts the calls that may begin now, and claims more devices when none is left.
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
                call(work)
            } else {
                // If no place is free, the end of a call returns here.
                if !schedule.isFull { starter?.start(after: schedule.wait(at: instant)) }
                return
            }
        }
        if !schedule.isPaused(at: instant), !schedule.isFull { claim() }
    }

    private func publishPause() {
        let pause = schedule.isPaused(at: instant) ? schedule.pause?.reason : nil
        context.shared.count { $0.receipts?.pause = pause }
    }

    // MARK: - Claiming

    private func claim() {
        guard !isClaiming else { return }
        isClaiming = true
        let end = now + Self.claimLife
        let claim = ReceiptClaim(at: now, until: end, limit: Self.claimLimit)
        context.registryRequests.perform(.claimReceipts(claim)) { [weak self] result in
            guard let self else { return }
            isClaiming = false
            // The next tick asks again.
            guard case .success(.claimedReceipts(let claimed)) = result else { return }
            for device in claimed.devices { examine(device, until: end) }
            if claimed.isMoreDue || !waiting.isEmpty { turn() }
        }
    }

    private func examine(_ device: DeviceDetails, until end: Int64) {
        guard let receipt = device.attestation?.receipt else { return }
        let identity = device.device.identity
        let service = services.firstIndex(for: identity.environment)
        guard let service, let assessment = rules.receipts(of: identity) else {
            return record(device, receipt, .unasked, .unasked, times: nil)
        }
        switch assessment.examine(receipt, of: identity, now: now) {
        case .exchangeable(let times):
            let work = ReceiptWork(
                device: device, receipt: receipt, times: times, assessment: assessment, service: service,
                claimEnd: end)
            if isRunning { waiting.append(work) } else { release(work) }
        case .waiting(let times, _): record(device, receipt, .waiting, .waiting, times: times)
        case .expired: record(device, receipt, .expired, .expired, times: nil)
        // Only `device show` reports these. If phones send invalid receipts, there may be one for each device.
        case .unverified:
            record(device, receipt, .unverified, .unverified, times: nil)
        }
    }

    // MARK: - Calls

    private func call(_ work: ReceiptWork) {
        let authorization: String
        do throws(CryptographyError) { authorization = try token.text(now: now) } catch {
            notify(.error, "failed", work.device, because: "a token cannot be created: \(error)")
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
            context.notify(.paused(pause.reason, seconds: (pause.until - instant).nanoseconds / 1_000_000_000))
        }
        turn()
    }
}

/// The outcomes of refreshes, which are counted, reported and stored.
extension ReceiptRefresher {
    func conclude(_ work: ReceiptWork, _ answer: RefreshAnswer) {
        let device = work.device
        switch answer {
        case .receipt(let bytes): keep(bytes, work)
        case .unchanged:
            count(.unchanged)
            notify(.info, "unchanged", device)
            record(work, .unchanged, .unchanged)
        case .malformed:
            count(.malformed)
            notify(.warning, "malformed", device, because: "Apple does not accept the receipt as its own")
            record(work, .malformed, .malformed)
        case .unknown:
            count(.unknown)
            notify(.info, "unknown", device, because: "Apple does not know the device")
            record(work, .unknown, .unknown)
        // The failure does not concern the device, which keeps its place.
        case .tokenRefused:
            count(.tokenRefused)
            notify(.error, "failed", device, because: "\(host(of: work)): token_refused: status 401")
            record(work, .failed, .paused)
        case .tooMany:
            count(.throttled)
            notify(.warning, "failed", device, because: "\(host(of: work)): throttled: status 429")
            record(work, .failed, .paused)
        case .failed(let reason):
            count(.failed)
            notify(.warning, "failed", device, because: "\(host(of: work)): \(reason)")
            record(work, .failed, .failed)
        }
    }

    /// Returns the host that was called.
    private func host(of work: ReceiptWork) -> String { settings.services[work.service].host }

    private func keep(_ bytes: [UInt8], _ work: ReceiptWork) {
        do throws(FreshReceiptFault) {
            let fields = try work.assessment.verify(bytes, of: work.device.device.identity, kept: work.times, now: now)
            guard let newer = ReceiptResult.NewerReceipt(content: bytes, riskMetric: fields.riskMetric) else {
                throw .receipt(.tooLong)
            }
            count(.refreshed)
            let highest = try? rules.app(of: work.device.device.identity).settings.maximumRisk
            let isAbove = highest.flatMap { highest in fields.riskMetric.map { $0 > highest } } ?? false
            notify(
                isAbove ? .warning : .info, "refreshed", work.device, risk: fields.riskMetric,
                because: isAbove ? "above maximum_risk" : nil)
            let times = ReceiptTimes(createdAt: fields.creation.seconds, notBefore: fields.notBefore?.seconds)
            record(work.device, work.receipt, .refreshed, .refreshed, times: times, newer: newer, askedAt: now)
        } catch {
            count(.refused)
            notify(.warning, "refused", work.device, because: "the received receipt was not stored: \(error.reason)")
            record(work, .refused, .refused)
        }
    }

    // MARK: - Results

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
        if newer != nil, isRunning { figures.update(at: now) }
    }

    private func failures(of device: DeviceDetails, after decided: RefreshSchedule.DeviceOutcome) -> Int {
        let before = device.refresh?.failures ?? 0
        switch decided {
        case .malformed, .refused, .failed: return before + 1
        case .paused, .waiting, .unasked: return before
        case .refreshed, .unchanged, .unknown, .expired, .unverified: return 0
        }
    }

    /// Releases the claim on a device that was not asked about.
    func release(_ work: ReceiptWork) {
        send(
            ReceiptResult(
                device: work.device.device.id, previous: work.receipt, createdAt: work.times.createdAt, nextAt: now,
                askedAt: nil, outcome: nil, failures: work.device.refresh?.failures ?? 0))
    }

    /// A result that cannot be stored now makes the device due when its claim ends.
    private func send(_ result: ReceiptResult) { context.registryRequests.perform(.recordReceipt(result)) { _ in } }

    // MARK: - Reporting

    private func count(_ result: ReceiptMetrics.Result) { context.shared.count { $0.receipts?.count(result) } }

    func notify(
        _ severity: EnrolmentNotice.Severity, _ outcome: String, _ device: DeviceDetails, risk: UInt32? = nil,
        because reason: String? = nil
    ) {
        let identity = device.device.identity
        context.notify(
            EnrolmentNotice(
                severity, outcome, device: rules.label(of: identity.hardwareKey), app: identity.app.description,
                risk: risk, because: reason))
    }
}

/// A collector of figures that only the registry knows: devices above their app's limit, and the greatest delay.
private final class ReceiptFigureCollector {
    private let ceilings: [(app: AppID, highest: UInt32)]
    private let registryRequests: RegistryRequests
    private let shared: EnrolmentShared
    private var isAsking = false

    init(_ apps: [EnrolmentSettings.App], _ context: EnrolmentContext) {
        ceilings = apps.compactMap { app in app.maximumRisk.map { (app.id, $0) } }
        registryRequests = context.registryRequests
        shared = context.shared
    }

    func update(at time: Int64) {
        guard !isAsking else { return }
        isAsking = true
        registryRequests.perform(.receiptFigures(ceilings: ceilings, at: time)) { [weak self] result in
            guard let self else { return }
            isAsking = false
            guard case .success(.receiptFigures(let figures)) = result else { return }
            let counts = zip(ceilings, figures.aboveCeiling).map {
                ReceiptMetrics.AppCount(app: $0.app.description, count: $1)
            }
            shared.count { metrics in
                metrics.receipts?.aboveCeiling = counts
                metrics.receipts?.oldestOverdue = figures.oldestDue.map { max(0, time - $0) } ?? 0
            }
        }
    }
}
