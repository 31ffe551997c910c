/// The state of replacing a device's receipt with a newer one. Times are in seconds since 1970-01-01T00:00:00Z.
public struct ReceiptRefresh: Equatable, Sendable {
    /// The creation time of the kept receipt. Nil until the receipt is first examined.
    public let createdAt: Int64?
    /// The time of the next examination. Nil if further attempts are useless.
    public let nextAt: Int64?
    /// The time of the last request for a newer receipt. Nil if there was none.
    public let askedAt: Int64?
    /// The last outcome.
    public let outcome: ReceiptOutcome?
    /// The number of consecutive failures.
    public let failures: Int

    package init(createdAt: Int64?, nextAt: Int64?, askedAt: Int64?, outcome: ReceiptOutcome?, failures: Int) {
        self.createdAt = createdAt
        self.nextAt = nextAt
        self.askedAt = askedAt
        self.outcome = outcome
        self.failures = failures
    }
}

/// The outcome of examining a receipt, or of requesting a newer one.
public enum ReceiptOutcome: String, CaseIterable, Sendable {
    /// A newer receipt is kept.
    case refreshed
    /// There is no newer receipt yet.
    case unchanged
    /// It is too early to request one.
    case waiting
    /// The service does not accept the receipt as its own.
    case malformed
    /// The service does not know the device.
    case unknown
    /// The gateway refused the newer receipt.
    case refused
    /// The kept receipt has expired and cannot be exchanged.
    case expired
    /// The kept receipt does not verify, so it is not sent to the service.
    case unverified
    /// The device's app is not configured, or no service is configured for it.
    case unasked
    /// The service did not answer, or its answer was not understood.
    case failed
}

/// A request for devices whose receipts are due. Times are in seconds since 1970-01-01T00:00:00Z.
///
/// Each device is claimed until a given time. Until then no other process claims it, even after a crash.
public struct ReceiptClaim: Sendable {
    public let time: Int64
    /// The time from which claimed devices without a result are due again.
    public let until: Int64
    /// The maximum number of devices.
    public let limit: Int

    /// The minimum number of rows that are examined, so that revoked devices are passed quickly.
    package static let leastRows = 64
    /// The time for which a revoked device is postponed, in seconds. A restored one is due at once.
    package static let revokedPause: Int64 = 7 * 86_400

    public init(at time: Int64, until: Int64, limit: Int) {
        self.time = time
        self.until = until
        self.limit = limit
    }
}

public struct ClaimedReceipts: Equatable, Sendable {
    /// The claimed devices, the longest due first. Each has a receipt, and none is revoked.
    public let devices: [DeviceDetails]
    /// Whether more devices may be due.
    public let isMoreDue: Bool

    package init(devices: [DeviceDetails], isMoreDue: Bool) {
        self.devices = devices
        self.isMoreDue = isMoreDue
    }
}

/// The result for a claimed device.
public struct ReceiptResult: Sendable {
    /// A newer receipt, which the caller has verified.
    public struct NewerReceipt: Sendable {
        public let content: [UInt8]
        public let riskMetric: UInt32?

        /// Creates a newer receipt.
        ///
        /// - Returns: nil if the content exceeds `AttestationRecord.receiptLimit`.
        public init?(content: [UInt8], riskMetric: UInt32?) {
            guard content.count <= AttestationRecord.receiptLimit else { return nil }
            self.content = content
            self.riskMetric = riskMetric
        }
    }

    public let device: DeviceID
    /// The examined receipt. If another one is kept now, nothing is changed.
    public let previous: [UInt8]
    public let newer: NewerReceipt?
    /// The creation time of `newer`, or else of `previous`. Nil if it is unknown.
    public let createdAt: Int64?
    public let nextAt: Int64?
    /// The time of the request to the service. Nil if there was none.
    public let askedAt: Int64?
    /// The outcome. Nil keeps the previous one.
    public let outcome: ReceiptOutcome?
    public let failures: Int

    public init(
        device: DeviceID, previous: [UInt8], newer: NewerReceipt? = nil, createdAt: Int64?, nextAt: Int64?,
        askedAt: Int64?,
        outcome: ReceiptOutcome?, failures: Int
    ) {
        self.device = device
        self.previous = previous
        self.newer = newer
        self.createdAt = createdAt
        self.nextAt = nextAt
        self.askedAt = askedAt
        self.outcome = outcome
        self.failures = failures
    }
}

public enum ReceiptVerdict: Equatable, Sendable {
    case recorded(DeviceDetails)
    /// Another receipt is kept now, or a later one. Nothing was written.
    case superseded
}

/// Statistics of the receipts of all devices.
public struct ReceiptFigures: Equatable, Sendable {
    /// The number of devices above each requested ceiling, in the same order. Counts stop at `countLimit`.
    public let aboveCeiling: [Int]
    /// The due time of the device that has waited longest. Nil if none is due.
    public let oldestDue: Int64?

    package init(aboveCeiling: [Int], oldestDue: Int64?) {
        self.aboveCeiling = aboveCeiling
        self.oldestDue = oldestDue
    }

    public static let countLimit = 10_000
}
