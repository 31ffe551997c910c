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
