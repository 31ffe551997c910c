public import Vocabulary

/// An operation on the registry. The same for the thread of a running gateway and for a command line that has the file to
/// itself.
public enum RegistryCommand: Sendable {
    /// Registers a device, bound to an mTLS key if one is given.
    case register(DeviceIdentity, binding: KeyID?)
    case bind(KeyID, to: DeviceID)
    case endBinding(KeyID)
    case revoke(DeviceID)
    case restore(DeviceID)
    /// One page of devices, in the order of their ids, from after one on.
    case list(after: DeviceID?, limit: Int)
    /// The same for pending devices alone.
    case listPending(after: DeviceID?, limit: Int)
    case show(DeviceSelector)
    /// Lets a pending device bind its first key.
    case approve(DeviceID)
    case initialize(InstanceInitialization)
    case bindKey(KeyBinding)
    /// Revokes the devices that were admitted for somebody, and bars new ones.
    case revokeSubject(Fingerprint)
    /// Looks through some of the certificates for those that are revoked.
    case listRevokedCertificates(after: CertificateSerial?, limit: Int)
    /// Draws the number of the next revocation list.
    case drawRevocationListNumber
    /// Takes receipts that are due to be looked at.
    case claimReceipts(ReceiptClaim)
    case settleReceipt(ReceiptResult)
    /// - ceilings: of apps, each the highest risk metric that is admitted.
    case receiptFigures(ceilings: [(app: AppID, highest: UInt32)], at: Int64)
    /// Draws a fresh epoch, so that every challenge handed out before is refused.
    case renewEpoch
}

public enum RegistryReply: Equatable, Sendable {
    /// The device concerned, as it is now.
    case device(DeviceDetails)
    case devices([Device])
    case identity(StoreIdentity)
    case initialization(InitializationVerdict)
    case keyBinding(KeyBindingVerdict)
    /// The devices that were not revoked before.
    case revoked([DeviceDetails])
    case revokedCertificates(RevokedCertificatePage)
    case revocationListNumber(Int64)
    case claimedReceipts(ClaimedReceipts)
    case settledReceipt(ReceiptVerdict)
    case receiptFigures(ReceiptFigures)
}

extension RegistryStore {
    public func perform(_ command: RegistryCommand) -> Result<RegistryReply, StoreError> {
        do throws(StoreError) {
            switch command {
            case .register(let identity, let key): return .success(.device(try register(identity, binding: key)))
            case .bind(let key, let device): return .success(.device(try bind(key, to: device)))
            case .endBinding(let key): return .success(.device(try endBinding(key)))
            case .revoke(let device): return .success(.device(try revoke(device)))
            case .restore(let device): return .success(.device(try restore(device)))
            case .list(let after, let limit): return .success(.devices(try devices(after: after, limit: limit)))
            case .listPending(let after, let limit):
                return .success(.devices(try pendingDevices(after: after, limit: limit)))
            case .approve(let device): return .success(.device(try approve(device)))
            case .initialize(let request): return .success(.initialization(try initialize(request)))
            case .bindKey(let request): return .success(.keyBinding(try bindKey(request)))
            case .revokeSubject(let subject): return .success(.revoked(try revokeSubject(subject)))
            case .show(let selector): return .success(.device(try show(selector)))
            case .listRevokedCertificates(let after, let limit):
                return .success(.revokedCertificates(try revokedCertificates(after: after, limit: limit)))
            case .drawRevocationListNumber: return .success(.revocationListNumber(try drawRevocationListNumber()))
            case .claimReceipts(let claim): return .success(.claimedReceipts(try claimReceipts(claim)))
            case .settleReceipt(let result): return .success(.settledReceipt(try settleReceipt(result)))
            case .receiptFigures(let ceilings, let time):
                return .success(.receiptFigures(try receiptFigures(ceilings, at: time)))
            case .renewEpoch: return .success(.identity(try renewEpoch()))
            }
        } catch {
            return .failure(error)
        }
    }
}
