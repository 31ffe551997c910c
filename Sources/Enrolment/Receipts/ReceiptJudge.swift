internal import Attestation
internal import Registry

/// How receipts of one app's devices are judged.
struct ReceiptJudge {
    private let appID: String
    private let verifier: ReceiptVerifier

    init(appID: String, verifier: ReceiptVerifier) {
        self.appID = appID
        self.verifier = verifier
    }

    /// - Parameters:
    ///   - receipt: the one that is kept of the device.
    ///   - now: in seconds since 1970.
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

    /// - Parameter kept: when the one that it is to replace was made.
    func judge(
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

/// Why a receipt that came in exchange is not kept.
enum FreshReceiptFault: Error, Equatable {
    case receipt(ReceiptFault)
    /// It is one of an attestation.
    case notRefreshed
    /// It was made for another environment than the device is of.
    case environment
    /// It was made before the one that is kept.
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
    /// In field 7; Apple's older word for development.
    fileprivate var receiptName: String {
        switch self {
        case .production: "production"
        case .development: "sandbox"
        case .simulator: "simulator"
        }
    }
}

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
