/// How it goes with exchanging a device's receipt for a newer one, which only its maker can tell. Times are seconds since
/// 1970-01-01T00:00:00Z.
public struct ReceiptRefresh: Equatable, Sendable {
    /// When the receipt that is kept was made; nil until somebody has looked.
    public let createdAt: Int64?
    /// When to look at it next; nil if that is of no use any more.
    public let nextAt: Int64?
    /// When it was last asked for; nil if never.
    public let askedAt: Int64?
    /// What came of it last.
    public let outcome: ReceiptOutcome?
    /// How often in a row nothing good has come of it.
    public let failures: Int
}

/// What came of looking at a device's receipt, or of asking for a newer one.
public enum ReceiptOutcome: String, CaseIterable, Sendable {
    /// A newer one is kept.
    case refreshed
    /// There is no newer one yet.
    case unchanged
    /// It is too early to ask.
    case waiting
    /// The service takes it for none of its own.
    case malformed
    /// The service knows nothing of the device.
    case unknown
    /// What came in exchange was refused here.
    case refused
    /// The one that is kept has expired: it is exchanged no more.
    case expired
    /// The one that is kept does not verify here, so it is not shown to anybody.
    case unverified
    /// The device's app is not configured, or nobody is to be asked about it.
    case unasked
    /// No answer, or none that is understood.
    case failed
}

/// Devices whose receipts are to be looked at, each taken until a time, so that nobody takes it a second time meanwhile: not
/// even after a crash. Times are seconds since 1970-01-01T00:00:00Z.
public struct ReceiptClaim: Sendable {
    public let time: Int64
    /// When those that are never settled are due again.
    public let until: Int64
    /// At most so many.
    public let limit: Int

    public init(at time: Int64, until: Int64, limit: Int) {
        self.time = time
        self.until = until
        self.limit = limit
    }
}

public struct ClaimedReceipts: Equatable, Sendable {
    /// Those that were due for longest first; each with a receipt, none of them revoked.
    public let devices: [DeviceDetails]
    /// Whether more may be due.
    public let isMoreDue: Bool
}

/// What came of one of them.
public struct ReceiptResult: Sendable {
    /// A newer receipt. Whether it is genuine its finder has made sure of.
    public struct NewerReceipt: Sendable {
        public let content: [UInt8]
        public let riskMetric: UInt32?

        /// - Returns: nil if it is larger than any that is genuine.
        public init?(content: [UInt8], riskMetric: UInt32?) {
            guard content.count <= AttestationRecord.receiptLimit else { return nil }
            self.content = content
            self.riskMetric = riskMetric
        }
    }

    public let device: DeviceID
    /// The receipt that was looked at: if another is kept by now, nothing is changed.
    public let previous: [UInt8]
    public let newer: NewerReceipt?
    /// When `newer`, or else `previous`, was made; nil if that is not known.
    public let createdAt: Int64?
    public let nextAt: Int64?
    /// Nil if nobody was asked.
    public let askedAt: Int64?
    /// Nil leaves what there is: nothing came of it.
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
    /// Another receipt is kept by now, or one made later. Nothing was written.
    case superseded
}

/// How receipts stand, all devices together.
public struct ReceiptFigures: Equatable, Sendable {
    /// Devices above each ceiling that was asked for, in that order; counted up to `countLimit`.
    public let aboveCeiling: [Int]
    /// Since when the one that has waited for longest is due; nil if none is.
    public let oldestDue: Int64?

    public static let countLimit = 10_000
}
