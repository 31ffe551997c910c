internal import Vocabulary

// Operations by name.
extension RegistryDatabase {
    /// - Parameters:
    ///   - time: seconds since 1970-01-01T00:00:00Z.
    ///   - spending: see `bindKey`.
    func perform(
        _ command: RegistryCommand, at time: Int64, spending: (DeviceID) -> Void
    ) throws -> RegistryReply {
        switch command {
        case .register(let identity, let key): .device(try register(identity, binding: key, at: time))
        case .bind(let key, let device): .device(try bind(key, to: device, at: time))
        case .endBinding(let key): .device(try endBinding(key, at: time))
        case .revoke(let device): .device(try revoke(device, at: time))
        case .restore(let device): .device(try restore(device, at: time))
        case .list(let after, let limit): .devices(try devices(after: after, limit: limit, isPending: false))
        case .listPending(let after, let limit): .devices(try devices(after: after, limit: limit, isPending: true))
        case .show(let selector): .device(try show(selector))
        case .approve(let device): .device(try approve(device, at: time))
        case .initialize(let request): .initialization(try initialize(request, at: time))
        case .bindKey(let request): .keyBinding(try bindKey(request, at: time, spending: spending))
        case .revokeSubject(let subject): .revoked(try revokeSubject(subject, at: time))
        case .count(let after, let limit): .count(try count(after: after, limit: limit))
        case .listRevokedCertificates(let after, let limit):
            .revokedCertificates(try revokedCertificates(after: after, limit: limit, at: time))
        case .drawRevocationListNumber: .revocationListNumber(try drawRevocationListNumber(at: time))
        case .claimReceipts(let claim): .claimedReceipts(try claimReceipts(claim))
        case .recordReceipt(let result): .recordedReceipt(try recordReceipt(result, at: time))
        case .receiptFigures(let ceilings, let due): .receiptFigures(try receiptFigures(ceilings, at: due))
        case .renewEpoch: .identity(try renewEpoch(at: time))
        case .export(let cursor, let limit): .exportPage(try exportPage(from: cursor, limit: limit, at: time))
        }
    }
}
