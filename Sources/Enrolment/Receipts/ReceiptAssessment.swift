internal import Attestation
internal import Registry

/// The verification of receipts for one app's devices.
struct ReceiptAssessment {
    private let appID: String
    private let verifier: ReceiptVerifier

    init(appID: String, verifier: ReceiptVerifier) {
        self.appID = appID
        self.verifier = verifier
    }

    /// Examines a stored receipt.
    ///
    /// - Parameters:
    ///   - receipt: The receipt stored for the device.
    ///   - now: The time in seconds since 1970.
    func examine(_ receipt: [UInt8], of device: DeviceIdentity, now: Int64) -> ReceiptRenewability {
        let expectation = ReceiptExpectation(appID: appID, publicKey: device.point.bytes)
        do throws(ReceiptFault) {
            let fields = try verifier.verify(receipt, expectation, at: now).fields
            let times = ReceiptTimes(createdAt: fields.creation.seconds, notBefore: fields.notBefore?.seconds)
            if let notBefore = times.notBefore, now < notBefore { return .waiting(times, until: notBefore) }
            return .exchangeable(times)
        } catch {
            if case .expired = error { return .expired }
            return .unverified(error)
        }
    }

    /// Verifies a new receipt.
    ///
    /// - Parameter kept: The times of the receipt that it would replace.
    func verify(
        _ receipt: [UInt8], of device: DeviceIdentity, kept: ReceiptTimes, now: Int64
    ) throws(FreshReceiptFault) -> ReceiptFields {
        let expectation = ReceiptExpectation(appID: appID, publicKey: device.point.bytes)
        let fields: ReceiptFields
        do throws(ReceiptFault) {
            fields = try verifier.verify(receipt, expectation, at: now).fields
        } catch {
            throw .receipt(error)
        }
        guard fields.kind == .refreshed else { throw .notRefreshed }
        guard fields.environment.map({ $0 == device.environment.receiptName }) ?? true else { throw .environment }
        guard fields.creation.seconds >= kept.createdAt else { throw .older }
        return fields
    }
}

/// The reason why an exchanged receipt is not stored.
enum FreshReceiptFault: Error, Equatable {
    case receipt(ReceiptFault)
    /// It is the receipt of an attestation.
    case notRefreshed
    /// It is for another environment than the device's.
    case environment
    /// It is older than the stored one.
    case older

    var reason: String {
        switch self {
        case .receipt(let fault): fault.reason
        case .notRefreshed: "it is from an attestation, not from an exchange"
        case .environment: "it is for another environment"
        case .older: "it is older than the stored one"
        }
    }
}

extension AttestationEnvironment {
    /// The text in field 7, with Apple's older word for development.
    fileprivate var receiptName: String {
        switch self {
        case .production: "production"
        case .development: "sandbox"
        case .simulator: "simulator"
        }
    }
}

/// Whether a stored receipt can be exchanged for a newer one.
enum ReceiptRenewability: Equatable {
    /// It can be exchanged.
    case exchangeable(ReceiptTimes)
    /// There is no newer metric before this time.
    case waiting(ReceiptTimes, until: Int64)
    /// Apple no longer exchanges it.
    case expired
    /// It is never sent to Apple, because Apple did not issue it for this device's app.
    case unverified(ReceiptFault)
}

/// The times of a receipt, in seconds since 1970.
struct ReceiptTimes: Equatable {
    let createdAt: Int64
    /// Field 19. Nil if it is absent.
    let notBefore: Int64?
}
