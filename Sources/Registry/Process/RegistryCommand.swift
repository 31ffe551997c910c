public import Vocabulary

/// An operation on the registry, for the thread of a running gateway and for commands with exclusive access.
public enum RegistryCommand: Sendable {
    /// Register a device, with a binding if a key is given.
    case register(DeviceIdentity, binding: KeyID?)
    case bind(KeyID, to: DeviceID)
    case endBinding(KeyID)
    case revoke(DeviceID)
    case restore(DeviceID)
    /// Return a page of devices, sorted by number.
    case list(after: DeviceID?, limit: Int)
    /// Return a page of pending devices, sorted by number.
    case listPending(after: DeviceID?, limit: Int)
    /// Return a page of devices that meet conditions, sorted by number.
    case search(DeviceSearch, after: DeviceID?, limit: Int)
    /// Return the newest devices that were admitted for a person.
    case listSubject(Fingerprint, limit: Int)
    /// Record the day on which devices were seen.
    case noteSeen(SeenDevices)
    case show(DeviceSelector)
    /// Count a page of devices, sorted by number.
    case count(after: DeviceID?, limit: Int)
    /// Allow a pending device to bind its first key.
    case approve(DeviceID)
    case initialize(InstanceRegistration)
    case bindKey(BindingRequest)
    /// Keep what an enrolled device has shown since.
    case reattest(Reattestation)
    /// Revoke the devices that were admitted for a person, and bar new ones.
    case revokeSubject(Fingerprint)
    /// Return the revoked ones in a page of certificates.
    case listRevokedCertificates(after: CertificateSerial?, limit: Int)
    /// Return a page of certificates that expire until a time, in seconds since 1970-01-01T00:00:00Z.
    case listExpiring(after: ExpiringCertificates.Place, until: Int64)
    /// Draw the number of the next revocation list.
    case drawRevocationListNumber
    /// Claim devices whose receipts are due.
    case claimReceipts(ReceiptClaim)
    case recordReceipt(ReceiptResult)
    /// Return statistics of receipts. `ceilings` are the highest admitted risk metrics of apps.
    case receiptFigures(ceilings: [(app: AppID, highest: UInt32)], at: Int64)
    /// Mark devices whose keys rest on listed certificates.
    case markListedKeys(ListedKeySearch)
    /// Release marked devices whose certificates are no longer listed.
    case releaseUnlistedKeys(ListedKeyReview)
    /// Issue a token of the federation to an instance.
    case grantToken(TokenGrant)
    case exchangeCode(CodeExchange)
    case findToken(Fingerprint)
    case revokeToken(Fingerprint, by: TokenRevoker)
    /// Return the tokens of a device that have not expired, the newest first.
    case listTokens(DeviceID)
    /// Return the services for which devices of the same person, or this device, ever had a token.
    case listUsedServices(DeviceID)
    case joinService(FederationService)
    case approveService(String)
    case removeService(String)
    case findService(ServiceSelector)
    /// Return a page of services, sorted by id.
    case listServices(after: String, limit: Int)
    /// Draw a fresh epoch, which invalidates all earlier challenges.
    case renewEpoch
    /// Return a page of an export. `limit` is the maximum number of rows. Time and size limit it too.
    case export(ExportCursor, limit: Int)

    /// Whether the operation may change the store.
    package var changesRegistry: Bool { rule(at: 0) != nil }

    /// Returns the rule of an operation that may change the store.
    ///
    /// - Parameter time: The current time, in seconds since 1970-01-01T00:00:00Z.
    /// - Returns: nil for an operation that only reads.
    package func rule(at time: Int64) -> StoreRule<RegistryReply>? {
        switch self {
        case .register(let identity, let key): DeviceRules.register(identity, binding: key, at: time)
        case .bind(let key, let device): DeviceRules.bind(key, to: device, at: time)
        case .endBinding(let key): DeviceRules.endBinding(key, at: time)
        case .revoke(let device): DeviceRules.revoke(device, at: time)
        case .restore(let device): DeviceRules.restore(device, at: time)
        case .approve(let device): DeviceRules.approve(device, at: time)
        case .revokeSubject(let subject): DeviceRules.revokeSubject(subject, at: time)
        case .initialize(let request): KeyRules.initialize(request, at: time)
        case .bindKey(let request): KeyRules.bindKey(request, at: time)
        case .reattest(let request): KeyRules.reattest(request, at: time)
        case .renewEpoch: DeviceRules.renewEpoch(at: time)
        case .drawRevocationListNumber: DeviceRules.drawRevocationListNumber(at: time)
        case .claimReceipts(let claim): UpkeepRules.claimReceipts(claim)
        case .recordReceipt(let result): UpkeepRules.recordReceipt(result)
        case .markListedKeys(let search): ListedKeyRules.mark(search)
        case .releaseUnlistedKeys(let review): ListedKeyRules.release(review)
        case .noteSeen(let seen): DeviceRules.noteSeen(seen)
        case .grantToken(let grant): FederationRules.grant(grant, at: time)
        case .exchangeCode(let exchange): FederationRules.exchange(exchange, at: time)
        case .revokeToken(let token, let revoker): FederationRules.revoke(token, by: revoker, at: time)
        case .joinService(let service): FederationRules.join(service)
        case .approveService(let id): FederationRules.approve(id, at: time)
        case .removeService(let id): FederationRules.remove(id, at: time)
        case .list, .listPending, .search, .listSubject, .show, .count, .listRevokedCertificates, .listExpiring,
            .receiptFigures, .findToken, .listTokens, .listUsedServices, .findService, .listServices, .export:
            nil
        }
    }
}

public enum RegistryReply: Equatable, Sendable {
    /// The current state of the device.
    case device(DeviceDetails)
    case devices([Device])
    case found(FoundDevices)
    case expiring(ExpiringCertificates)
    /// Devices were recorded as seen.
    case noted
    case count(DeviceCount)
    case identity(StoreIdentity)
    case initialization(InitializationVerdict)
    case keyBinding(KeyBindingVerdict)
    case reattestation(ReattestationVerdict)
    /// The devices that were not revoked before.
    case revoked([DeviceDetails])
    case revokedCertificates(RevokedCertificatePage)
    case revocationListNumber(Int64)
    case claimedReceipts(ClaimedReceipts)
    case recordedReceipt(ReceiptVerdict)
    case receiptFigures(ReceiptFigures)
    case listedKeys(ListedKeyPage)
    case token(TokenVerdict)
    case foundToken(FoundToken?)
    case tokenRevocation(TokenRevocation)
    case tokens([FederationToken])
    case service(ServiceVerdict)
    case services([FederationService])
    case exportPage(ExportPage)
}

/// The selection of a device by an operator.
public enum DeviceSelector: Sendable {
    case id(DeviceID)
    case hardwareKey(KeyID)
    /// The device of an Android app's tag.
    case tag([UInt8])
    /// The device of an mTLS key that is or was bound to it.
    case binding(KeyID)
}
