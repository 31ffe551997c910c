internal import Attestation
internal import Cryptography
internal import EventLoop
internal import Foundation
internal import Registry
internal import Upstream
internal import Vocabulary

/// Asks Apple for newer receipts: takes devices that are due from the registry, calls, and has what comes written down. Which
/// call may begin, and when a device is due again, is decided by `RefreshSchedule`.
///
/// One generation's. What it has taken and not brought to an end when it stops is due again at once; after a crash, when its
/// claim ends.
final class ReceiptRefresher {
    private let settings: ReceiptSettings
    private let rules: EnrolmentRules
    private let ceilings: [(app: AppID, highest: UInt32)]
    private let pools: [UpstreamPool]
    private let surroundings: EnrolmentGeneration.Surroundings
    /// Where the services are that are known by a name. Nil while nothing is asked.
    private var names: NameBook?
    private var schedule: RefreshSchedule
    private var token: RefreshToken

    /// Claimed, looked at, and worth a call; in the order in which they were due.
    private var waiting: [Work] = []
    private var calls: [DeviceID: (call: OutboundCall, work: Work)] = [:]
    private var isClaiming = false
    private var isAsking = false
    private var ticker: LoopTimer?
    private var ticks = 0
    private var starter: LoopTimer?

    private struct Work {
        let device: DeviceDetails
        let receipt: [UInt8]
        let times: ReceiptTimes
        let judge: ReceiptJudge
        let service: Int
        let claimEnd: Int64
    }

    /// How often new devices are looked for.
    private static let interval = TimeSpan.milliseconds(500)
    /// So many times until figures are brought up to date.
    private static let figuresInterval = 4
    private static let claimLimit = 8
    /// Longer than what is claimed takes at one call a minute; how long a crash keeps a device from being asked about.
    private static let claimLife: Int64 = 15 * 60
    private static let path = "/v1/attestationData"

    init(
        _ settings: ReceiptSettings, _ apps: [EnrolmentSettings.App], _ rules: EnrolmentRules,
        _ surroundings: EnrolmentGeneration.Surroundings
    ) throws(EnrolmentStartError) {
        self.settings = settings
        self.rules = rules
        self.surroundings = surroundings
        ceilings = apps.compactMap { app in app.maximumRisk.map { (app.id, $0) } }
        schedule = RefreshSchedule(
            RefreshSchedule.Rules(
                concurrency: settings.concurrency, callsPerMinute: settings.callsPerMinute, interval: settings.interval,
                retry: settings.retry))
        token = try Self.token(settings, surroundings.library)
        do throws(CryptographyError) {
            pools = try settings.services.map { service throws(CryptographyError) in
                try UpstreamPool(
                    loop: surroundings.loop, buffers: surroundings.pool, settings: service.upstream,
                    tallies: service.upstream.servers.map { _ in ServerTally() }, library: surroundings.library)
            }
        } catch {
            throw EnrolmentStartError("receipts: \(error)")
        }
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
            if names == nil { find() } else { start() }
        }
    }

    /// Finds out where the services are, and keeps that up to date. What nobody has found yet fails, and is tried again.
    private func find() {
        let names = NameBook(loop: surroundings.loop, settings: settings.resolver, forbidden: settings.forbidden)
        self.names = names
        names.onChange = { [unowned self] servers in
            for server in servers { move(server) }
        }
        names.onEvent = { [unowned self] event in
            surroundings.tell(ReceiptNotice(event))
        }
        names.follow(Set(settings.services.flatMap(\.upstream.servers).compactMap(\.resolved)))
        names.whenAnswered(within: Self.namePatience) { [unowned self] in start() }
    }

    private func move(_ server: NamedServer) {
        let addresses = names?.addresses(of: server) ?? []
        for pool in pools { pool.readdress(server, to: addresses) }
    }

    private static let namePatience = TimeSpan.seconds(2)

    private func start() {
        guard starter != nil else { return }
        if ticker == nil {
            schedule.resume(surroundings.shared.receiptPause)
            ticker = LoopTimer(loop: surroundings.loop, interval: Self.interval, repeats: true) { [unowned self] in
                turn()
                ticks += 1
                if ticks % Self.figuresInterval == 0 { askFigures() }
            }
            askFigures()
        }
        turn()
    }

    func stop() {
        guard starter != nil else { return }
        ticker = nil
        starter = nil
        names = nil
        surroundings.shared.receiptPause = schedule.pause
        for (call, work) in calls.values {
            call.stop()
            release(work)
        }
        calls = [:]
        for work in waiting { release(work) }
        waiting = []
    }

    private var isRunning: Bool { ticker != nil }
    private var now: Int64 { WallClock.seconds }
    private var instant: Instant { surroundings.loop.now }

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
        let service = settings.services.firstIndex { $0.environments.contains(identity.environment) }
        guard let service, let app = try? rules.app(of: identity).0 else {
            return settle(device, receipt, .unasked, .unasked, times: nil)
        }
        switch app.receipts.examine(receipt, of: identity, now: now) {
        case .exchangeable(let times):
            let work = Work(
                device: device, receipt: receipt, times: times, judge: app.receipts, service: service, claimEnd: end)
            if isRunning { waiting.append(work) } else { release(work) }
        case .waiting(let times, _): settle(device, receipt, .waiting, .waiting, times: times)
        case .expired: settle(device, receipt, .expired, .expired, times: nil)
        // Told by `device show` alone: there may be as many as devices, if phones send rubbish.
        case .unverified:
            settle(device, receipt, .unverified, .unverified, times: nil)
        }
    }

    // MARK: - Calling

    private func ask(_ work: Work) {
        let authorization: String
        do throws(CryptographyError) { authorization = try token.text(now: now) } catch {
            tell(.error, "failed", work.device, because: "no token can be made: \(error)")
            return ended(work, .failed("token"))
        }
        let service = settings.services[work.service]
        let request = OutboundRequest(
            post: service.path + Self.path, host: service.host,
            fields: [
                ("Authorization", authorization), ("Content-Type", "text/plain"), ("Accept-Encoding", "identity"),
            ],
            content: Array(Data(work.receipt).base64EncodedString().utf8))
        // To ask for the same once more does no harm: what is newer is exchanged again.
        let call = OutboundCall(request, on: pools[work.service], loop: surroundings.loop, isRepeatable: true) {
            [weak self] result in
            guard let self, calls.removeValue(forKey: work.device.device.id) != nil else { return }
            ended(work, RefreshAnswer(result))
        }
        calls[work.device.device.id] = (call, work)
        call.start(timeout: settings.timeout)
    }

    private func ended(_ work: Work, _ answer: RefreshAnswer) {
        let beginsPause = schedule.ended(answer, at: instant)
        conclude(work, answer)
        if beginsPause, let pause = schedule.pause {
            surroundings.tell(.paused(pause.reason, seconds: (pause.until - instant).nanoseconds / 1_000_000_000))
        }
        turn()
    }

    private func conclude(_ work: Work, _ answer: RefreshAnswer) {
        let device = work.device
        switch answer {
        case .receipt(let bytes): keep(bytes, work)
        case .unchanged:
            count(.unchanged)
            tell(.info, "unchanged", device)
            settle(work, .unchanged, .unchanged)
        case .malformed:
            count(.malformed)
            tell(.warning, "malformed", device, because: "Apple takes the receipt for none of its own")
            settle(work, .malformed, .malformed)
        case .unknown:
            count(.unknown)
            tell(.info, "unknown", device, because: "Apple knows nothing of the device")
            settle(work, .unknown, .unknown)
        // Nothing that concerns the device: it keeps its turn.
        case .tokenRefused:
            count(.tokenRefused)
            tell(.error, "failed", device, because: "\(host(of: work)): token_refused: status 401")
            settle(work, .failed, .paused)
        case .tooMany:
            count(.throttled)
            tell(.warning, "failed", device, because: "\(host(of: work)): throttled: status 429")
            settle(work, .failed, .paused)
        case .failed(let reason):
            count(.failed)
            tell(.warning, "failed", device, because: "\(host(of: work)): \(reason)")
            settle(work, .failed, .failed)
        }
    }

    /// Who was asked.
    private func host(of work: Work) -> String { settings.services[work.service].host }

    private func keep(_ bytes: [UInt8], _ work: Work) {
        do throws(FreshReceiptFault) {
            let fields = try work.judge.judge(bytes, of: work.device.device.identity, kept: work.times, now: now)
            guard let newer = ReceiptResult.Newer(content: bytes, riskMetric: fields.riskMetric) else {
                throw .receipt(.tooLong)
            }
            count(.refreshed)
            let highest = try? rules.app(of: work.device.device.identity).0.settings.maximumRisk
            let isAbove = highest.flatMap { highest in fields.riskMetric.map { $0 > highest } } ?? false
            tell(
                isAbove ? .warning : .info, "refreshed", work.device, risk: fields.riskMetric,
                because: isAbove ? "above maximum_risk" : nil)
            let times = ReceiptTimes(createdAt: fields.creation.seconds, notBefore: fields.notBefore?.seconds)
            settle(work.device, work.receipt, .refreshed, .refreshed, times: times, newer: newer, askedAt: now)
        } catch {
            count(.refused)
            tell(.warning, "refused", work.device, because: "the receipt that came is not kept: \(error.reason)")
            settle(work, .refused, .refused)
        }
    }

    // MARK: - Settling

    private func settle(_ work: Work, _ outcome: ReceiptOutcome, _ decided: RefreshSchedule.DeviceOutcome) {
        settle(work.device, work.receipt, outcome, decided, times: work.times, askedAt: now)
    }

    private func settle(
        _ device: DeviceDetails, _ previous: [UInt8], _ outcome: ReceiptOutcome,
        _ decided: RefreshSchedule.DeviceOutcome, times: ReceiptTimes?, newer: ReceiptResult.Newer? = nil,
        askedAt: Int64? = nil
    ) {
        let failures = failures(of: device, after: decided)
        let next = schedule.next(
            after: decided, notBefore: times?.notBefore, failures: failures, now: now, at: instant)
        send(
            ReceiptResult(
                device: device.device.id, previous: previous, newer: newer, createdAt: times?.createdAt, nextAt: next,
                askedAt: askedAt, outcome: outcome, failures: failures))
        if newer != nil { askFigures() }
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
    private func release(_ work: Work) {
        send(
            ReceiptResult(
                device: work.device.device.id, previous: work.receipt, createdAt: work.times.createdAt, nextAt: now,
                askedAt: nil, outcome: nil, failures: work.device.refresh?.failures ?? 0))
    }

    /// What cannot be written down now is due again when the claim ends.
    private func send(_ result: ReceiptResult) { surroundings.questions.ask(.settleReceipt(result)) { _ in } }

    // MARK: - Telling

    private func count(_ result: ReceiptMetrics.Result) { surroundings.shared.count { $0.receipts?.count(result) } }

    private func tell(
        _ severity: ReceiptNotice.Severity, _ outcome: String, _ device: DeviceDetails, risk: UInt32? = nil,
        because reason: String? = nil
    ) {
        let identity = device.device.identity
        surroundings.tell(
            ReceiptNotice(
                severity, outcome, device: rules.label(of: identity.hardwareKey), app: identity.app.description,
                risk: risk, because: reason))
    }

    private func askFigures() {
        guard isRunning, !isAsking else { return }
        isAsking = true
        let asked = now
        surroundings.questions.ask(.receiptFigures(ceilings: ceilings, at: asked)) { [weak self] result in
            guard let self else { return }
            isAsking = false
            guard case .success(.receiptFigures(let figures)) = result else { return }
            let counts = zip(ceilings, figures.aboveCeiling).map {
                ReceiptMetrics.AppCount(app: $0.app.description, count: $1)
            }
            surroundings.shared.count { metrics in
                metrics.receipts?.aboveCeiling = counts
                metrics.receipts?.oldestOverdue = figures.oldestDue.map { max(0, asked - $0) } ?? 0
            }
        }
    }
}
