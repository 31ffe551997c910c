internal import EventLoop
internal import Registry

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
