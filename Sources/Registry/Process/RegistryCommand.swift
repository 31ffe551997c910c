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
    /// Counts some of the devices, in the order of their ids, from after one on.
    case count(after: DeviceID?, limit: Int)
    /// Lets a pending device bind its first key.
    case approve(DeviceID)
    case initialize(InstanceRegistration)
    case bindKey(BindingRequest)
    /// Revokes the devices that were admitted for somebody, and bars new ones.
    case revokeSubject(Fingerprint)
    /// Looks through some of the certificates for those that are revoked.
    case listRevokedCertificates(after: CertificateSerial?, limit: Int)
    /// Draws the number of the next revocation list.
    case drawRevocationListNumber
    /// Takes receipts that are due to be looked at.
    case claimReceipts(ReceiptClaim)
    case recordReceipt(ReceiptResult)
    /// - ceilings: of apps, each the highest risk metric that is admitted.
    case receiptFigures(ceilings: [(app: AppID, highest: UInt32)], at: Int64)
    /// Draws a fresh epoch, so that every challenge handed out before is refused.
    case renewEpoch
    /// Some of what the registry knows, for a backup. - limit: rows at most; time and size bound it before.
    case export(ExportCursor, limit: Int)
}

public enum RegistryReply: Equatable, Sendable {
    /// The device concerned, as it is now.
    case device(DeviceDetails)
    case devices([Device])
    case count(DeviceCount)
    case identity(StoreIdentity)
    case initialization(InitializationVerdict)
    case keyBinding(KeyBindingVerdict)
    /// The devices that were not revoked before.
    case revoked([DeviceDetails])
    case revokedCertificates(RevokedCertificatePage)
    case revocationListNumber(Int64)
    case claimedReceipts(ClaimedReceipts)
    case recordedReceipt(ReceiptVerdict)
    case receiptFigures(ReceiptFigures)
    case exportPage(ExportPage)
}

extension RegistryCommand {
    /// Returns the entries of the revocation journal for an operation that succeeded. The journal skips known entries.
    ///
    /// - Parameters:
    ///   - reply: The reply to this command.
    ///   - time: The time of the operation, in seconds since 1970-01-01T00:00:00Z.
    func witnessEntries(for reply: RegistryReply, at time: Int64) -> [WitnessEntry] {
        switch (self, reply) {
        case (.register, .device(let details)), (.revoke, .device(let details)), (.restore, .device(let details)),
            (.endBinding, .device(let details)):
            WitnessEntry.all(of: details, at: time)
        case (.bindKey, .keyBinding(.bound(let details, _))): WitnessEntry.all(of: details, at: time)
        case (.revokeSubject(let subject), .revoked(let devices)):
            [.barred(subject, at: time)] + devices.flatMap { WitnessEntry.all(of: $0, at: time) }
        default: []
        }
    }
}

/// How an operator names a device.
public enum DeviceSelector: Sendable {
    case id(DeviceID)
    case hardwareKey(KeyID)
    /// By an mTLS key that is or was bound to it.
    case binding(KeyID)
}
