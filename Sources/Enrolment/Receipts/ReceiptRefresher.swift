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
