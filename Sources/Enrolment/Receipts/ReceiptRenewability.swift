internal import Attestation

/// What a receipt that is kept says about asking for a newer one.
enum ReceiptRenewability: Equatable {
    /// It may be exchanged.
    case exchangeable(ReceiptTimes)
    /// Not before that time is there a newer metric.
    case waiting(ReceiptTimes, until: Int64)
    /// Apple exchanges it no more.
    case expired
    /// Never sent to Apple: it is not the receipt that Apple issued for this device's app.
    case unverified(ReceiptFault)
}

/// In seconds since 1970.
struct ReceiptTimes: Equatable {
    let createdAt: Int64
    /// Field 19; nil if it does not say.
    let notBefore: Int64?
}
