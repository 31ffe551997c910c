public import EventLoop

// Operations by name.
extension RegistryStore {
    /// - Parameter time: seconds since 1970-01-01T00:00:00Z.
    public func perform(
        _ command: RegistryCommand, at time: Int64 = WallClock.seconds
    ) -> Result<RegistryReply, StoreError> {
        do throws(StoreError) {
            switch command {
            case .register(let identity, let key):
                return .success(.device(try register(identity, binding: key, at: time)))
            case .bind(let key, let device): return .success(.device(try bind(key, to: device, at: time)))
            case .endBinding(let key): return .success(.device(try endBinding(key, at: time)))
            case .revoke(let device): return .success(.device(try revoke(device, at: time)))
            case .restore(let device): return .success(.device(try restore(device, at: time)))
            case .list(let after, let limit): return .success(.devices(try devices(after: after, limit: limit)))
            case .listPending(let after, let limit):
                return .success(.devices(try pendingDevices(after: after, limit: limit)))
            case .approve(let device): return .success(.device(try approve(device, at: time)))
            case .initialize(let request): return .success(.initialization(try initialize(request, at: time)))
            case .bindKey(let request): return .success(.keyBinding(try bindKey(request, at: time)))
            case .revokeSubject(let subject): return .success(.revoked(try revokeSubject(subject, at: time)))
            case .show(let selector): return .success(.device(try show(selector)))
            case .count(let after, let limit): return .success(.count(try count(after: after, limit: limit)))
            case .listRevokedCertificates(let after, let limit):
                return .success(.revokedCertificates(try revokedCertificates(after: after, limit: limit, at: time)))
            case .drawRevocationListNumber:
                return .success(.revocationListNumber(try drawRevocationListNumber(at: time)))
            case .claimReceipts(let claim): return .success(.claimedReceipts(try claimReceipts(claim)))
            case .recordReceipt(let result): return .success(.recordedReceipt(try recordReceipt(result)))
            case .receiptFigures(let ceilings, let due):
                return .success(.receiptFigures(try receiptFigures(ceilings, at: due)))
            case .renewEpoch: return .success(.identity(try renewEpoch(at: time)))
            case .export(let cursor, let limit):
                return .success(
                    .exportPage(
                        try exportPage(from: cursor, limit: limit, until: .now + ExportPage.time, at: time)))
            }
        } catch {
            return .failure(error)
        }
    }
}
