internal import EventLoop
package import Registry
package import Vocabulary

/// A store that performs an operation at once, with a function for each operation.
package protocol OperatedStore {
    func answer(_ command: RegistryCommand, at time: Int64) throws -> RegistryReply
}

/// A reply to another operation.
package struct OtherReply: Error {
    package init() {}
}

extension OperatedStore {
    package func answer(_ command: RegistryCommand) throws -> RegistryReply {
        try answer(command, at: WallClock.seconds)
    }

    private func details(_ command: RegistryCommand, _ time: Int64) throws -> DeviceDetails {
        guard case .device(let details) = try answer(command, at: time) else { throw OtherReply() }
        return details
    }

    private func devices(_ command: RegistryCommand) throws -> [Device] {
        guard case .devices(let devices) = try answer(command) else { throw OtherReply() }
        return devices
    }

    package func register(
        _ identity: DeviceIdentity, binding key: KeyID?, at time: Int64 = WallClock.seconds
    ) throws -> DeviceDetails { try details(.register(identity, binding: key), time) }

    package func bind(_ key: KeyID, to device: DeviceID, at time: Int64 = WallClock.seconds) throws -> DeviceDetails {
        try details(.bind(key, to: device), time)
    }

    package func endBinding(_ key: KeyID, at time: Int64 = WallClock.seconds) throws -> DeviceDetails {
        try details(.endBinding(key), time)
    }

    package func revoke(_ device: DeviceID, at time: Int64 = WallClock.seconds) throws -> DeviceDetails {
        try details(.revoke(device), time)
    }

    package func restore(_ device: DeviceID, at time: Int64 = WallClock.seconds) throws -> DeviceDetails {
        try details(.restore(device), time)
    }

    package func approve(_ device: DeviceID, at time: Int64 = WallClock.seconds) throws -> DeviceDetails {
        try details(.approve(device), time)
    }

    package func show(_ selector: DeviceSelector) throws -> DeviceDetails {
        try details(.show(selector), WallClock.seconds)
    }

    package func devices(after: DeviceID?, limit: Int) throws -> [Device] {
        try devices(.list(after: after, limit: limit))
    }

    package func pendingDevices(after: DeviceID?, limit: Int) throws -> [Device] {
        try devices(.listPending(after: after, limit: limit))
    }

    package func count(after: DeviceID?, limit: Int) throws -> DeviceCount {
        guard case .count(let count) = try answer(.count(after: after, limit: limit)) else { throw OtherReply() }
        return count
    }

    package func revokeSubject(_ subject: Fingerprint, at time: Int64 = WallClock.seconds) throws -> [DeviceDetails] {
        guard case .revoked(let devices) = try answer(.revokeSubject(subject), at: time) else { throw OtherReply() }
        return devices
    }

    package func renewEpoch(at time: Int64 = WallClock.seconds) throws -> StoreIdentity {
        guard case .identity(let identity) = try answer(.renewEpoch, at: time) else { throw OtherReply() }
        return identity
    }

    package func initialize(
        _ request: InstanceRegistration, at time: Int64 = WallClock.seconds
    ) throws -> InitializationVerdict {
        guard case .initialization(let verdict) = try answer(.initialize(request), at: time) else { throw OtherReply() }
        return verdict
    }

    package func bindKey(_ request: BindingRequest, at time: Int64 = WallClock.seconds) throws -> KeyBindingVerdict {
        guard case .keyBinding(let verdict) = try answer(.bindKey(request), at: time) else { throw OtherReply() }
        return verdict
    }

    package func revokedCertificates(
        after: CertificateSerial?, limit: Int, at time: Int64 = WallClock.seconds
    ) throws -> RevokedCertificatePage {
        let reply = try answer(.listRevokedCertificates(after: after, limit: limit), at: time)
        guard case .revokedCertificates(let page) = reply else { throw OtherReply() }
        return page
    }

    package func drawRevocationListNumber(at time: Int64 = WallClock.seconds) throws -> Int64 {
        guard case .revocationListNumber(let number) = try answer(.drawRevocationListNumber, at: time) else {
            throw OtherReply()
        }
        return number
    }

    package func claimReceipts(_ claim: ReceiptClaim) throws -> ClaimedReceipts {
        guard case .claimedReceipts(let claimed) = try answer(.claimReceipts(claim)) else { throw OtherReply() }
        return claimed
    }

    package func recordReceipt(_ result: ReceiptResult) throws -> ReceiptVerdict {
        guard case .recordedReceipt(let verdict) = try answer(.recordReceipt(result)) else { throw OtherReply() }
        return verdict
    }

    package func receiptFigures(
        _ ceilings: [(app: AppID, highest: UInt32)], at time: Int64
    ) throws -> ReceiptFigures {
        guard case .receiptFigures(let figures) = try answer(.receiptFigures(ceilings: ceilings, at: time)) else {
            throw OtherReply()
        }
        return figures
    }
}
