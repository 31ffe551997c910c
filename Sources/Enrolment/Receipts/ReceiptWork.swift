internal import Registry

/// A device that was claimed, and whose receipt is worth a call.
struct ReceiptWork {
    let device: DeviceDetails
    let receipt: [UInt8]
    let times: ReceiptTimes
    let judge: ReceiptJudge
    /// Which of the services is asked.
    let service: Int
    let claimEnd: Int64
}
