internal import EventLoop
internal import Logging

/// What workers and enrolment report.
extension GatewayProcess {
    /// The numbers of all that serve and have not ended: the workers', and that of the enrolment service.
    var running: Set<Int> { workers.running.union(isEnrolmentRunning ? [Self.enrolmentNumber] : []) }

    func receive(_ event: Event) {
        switch event {
        case .enrolment(let report):
            switch report {
            case .serving:
                begun.insert(Self.enrolmentNumber)
                tellServing()
            case .duplicated(let sockets): duplicated(sockets, by: Self.enrolmentNumber)
            case .prepared(let fault): prepared(by: Self.enrolmentNumber, fault: fault)
            case .adopted: adopted(by: Self.enrolmentNumber)
            case .pong: watchdog?.answered(Self.enrolmentNumber)
            case .failed(let reason): logger.error("enrolment: \(reason)")
            case .receipt(let notice):
                switch notice.severity {
                case .info: logger.info("receipts: \(notice)")
                case .warning: logger.warning("receipts: \(notice)")
                case .error: logger.error("receipts: \(notice)")
                }
            case .ended:
                isEnrolmentRunning = false
                if running.isEmpty { loop.stop() }
                woundUp(by: Self.enrolmentNumber)
                serveAgain()
            }
        case .loaded(let result): loaded(result)
        case .worker(let worker, let report):
            switch report {
            case .serving:
                begun.insert(worker)
                tellServing()
            case .duplicated(let sockets): duplicated(sockets, by: worker)
            case .woundUp: woundUp(by: worker)
            case .snapshot(let snapshot): snapshots.received(snapshot, from: worker)
            case .decisions(let batch): decisions.received(batch, from: worker)
            case .prepared(let fault): prepared(by: worker, fault: fault)
            case .adopted: adopted(by: worker)
            case .pong: watchdog?.answered(worker)
            case .readdressed: addressesTaken(by: worker)
            case .ended:
                workers.ended(worker)
                addressDelivery.ended(worker)
                snapshots.ended(worker)
                decisions.ended(worker)
                if running.isEmpty { loop.stop() }
            }
        }
    }
}
