package import Vocabulary

/// The rule of an operation: what a store looks up, and the decision by what it finds.
///
/// Rules know nothing of a store. A store looks, decides and writes in one transaction. After a conflict with another
/// transaction it repeats all three.
package struct StoreRule<Reply> {
    package let look: StoreLook
    /// Whether the transaction must not overlap with others that change devices.
    package let isExclusive: Bool
    /// Whether there is often nothing to write, so that a look outside of the exclusive transaction saves one.
    package let isOftenIdle: Bool
    /// Decides by the facts.
    ///
    /// - Throws: `StoreError` to refuse. Nothing is written then.
    package let decide: (StoreFacts) throws(StoreError) -> StoreDecision<Reply>

    package init(
        look: StoreLook, isExclusive: Bool = true, isOftenIdle: Bool = false,
        decide: @escaping (StoreFacts) throws(StoreError) -> StoreDecision<Reply>
    ) {
        self.look = look
        self.isExclusive = isExclusive
        self.isOftenIdle = isOftenIdle
        self.decide = decide
    }
}

/// What is to be written, and the reply to the caller when that is durable.
package struct StoreDecision<Reply> {
    /// The writes in order. If there are none, the store stays as it is.
    package let writes: [StoreWrite]
    /// The devices whose state after the writes is part of the reply.
    package let reading: [DeviceSelector]
    package let reply: ([DeviceDetails]) -> Reply

    package init(
        _ writes: [StoreWrite] = [], reading: [DeviceSelector] = [], reply: @escaping ([DeviceDetails]) -> Reply
    ) {
        self.writes = writes
        self.reading = reading
        self.reply = reply
    }

    /// Creates a decision with a known reply.
    package init(_ writes: [StoreWrite] = [], reply: Reply) {
        self.init(writes) { _ in reply }
    }
}

/// The facts that a rule needs. A store reads all of them in one snapshot, in one round trip if it can.
package struct StoreLook {
    /// A device with its bindings, its attestation and its receipt.
    package var device: DeviceSelector?
    /// The spent counter values of that device. They do not change until the transaction ends.
    package var counter = false
    /// Whether this mTLS key is or was bound, or is barred.
    package var bindingKey: KeyID?
    /// Whether this hardware key is barred.
    package var hardwareKey: KeyID?
    /// Whether a device has this tag.
    package var tag: [UInt8]?
    /// How many devices of this app were attested for development and are not revoked.
    package var developmentDevices: AppID?
    /// Whether this nonce was used.
    package var nonce: SingleUse?
    /// Whether this admission token was used.
    package var token: SingleUse?
    /// Whether this serial number was issued.
    package var serial: CertificateSerial?
    /// When the last certificate of `device` ends.
    package var certificateEnd = false
    /// Whether these people are barred, and which of their devices are not revoked.
    package var subjects: [Fingerprint] = []
    /// The state of the devices of these hardware keys, and whether the keys are barred.
    package var hardwareKeys: [KeyID] = []
    /// The bindings of these mTLS keys, and whether the keys are barred.
    package var bindingKeys: [KeyID] = []
    /// Rows whose time has come, the longest due first.
    package var due: Due?
    /// Devices whose keys rest on listed certificates, or may, in the order of their numbers.
    package var listed: Listed?
    /// These tokens of the federation, their devices and their parents.
    package var federationTokens: [Fingerprint] = []
    /// How many tokens of `device` have not expired at this time, and its newest live instance token.
    package var tokensOfDevice: Int64?
    /// A service of the federation.
    package var service: ServiceSelector?
    /// Which service has this URL, and how many services there are.
    package var serviceURL: String?

    /// Rows up to a time and a number. Times are in seconds since 1970-01-01T00:00:00Z.
    package struct Due {
        package enum Rows {
            case receipts
            case bindings
            case used(SingleUseKind)
            case certificates
            /// Without those from which others were derived.
            case federationTokens
        }

        package let rows: Rows
        package let time: Int64
        package let limit: Int

        package init(_ rows: Rows, at time: Int64, limit: Int) {
            self.rows = rows
            self.time = time
            self.limit = limit
        }
    }

    package enum Listed {
        /// Devices that are not marked although they have one of the certificates.
        case unmarked(holding: [String], after: DeviceID?, limit: Int)
        /// Marked devices with the serial numbers of their certificates.
        case marked(after: DeviceID?, limit: Int)
    }

    package init() {}

    package init(_ device: DeviceSelector) { self.device = device }
}

/// The facts that a store has found for a `StoreLook`.
package struct StoreFacts {
    package var state: StoreState
    package var device: DeviceDetails?
    package var window: CounterWindow?
    package var isBindingKeyTaken = false
    package var isHardwareKeyBarred = false
    package var isTagTaken = false
    package var developmentDevices = 0
    package var isNonceUsed = false
    package var isTokenUsed = false
    package var isSerialIssued = false
    /// In seconds since 1970-01-01T00:00:00Z. Nil if no certificate of the device is known.
    package var certificateEnd: Int64?
    package var barredSubjects: Set<Fingerprint> = []
    /// The devices of people that are not revoked, sorted by number.
    package var devicesOfSubject: [Fingerprint: [DeviceID]] = [:]
    package var devices: [KeyID: (id: DeviceID, isRevoked: Bool)] = [:]
    package var bindings: [KeyID: Binding] = [:]
    package var barredKeys: [BarredKeyKind: Set<KeyID>] = [:]
    package var due: [DueRow] = []
    /// The devices of `StoreLook.Listed`. Serial numbers only of marked ones.
    package var listed: [(device: DeviceID, serials: [String])] = []
    package var federationTokens: [Fingerprint: FoundToken] = [:]
    /// The parents of `federationTokens`, by their children.
    package var parents: [Fingerprint: FederationToken] = [:]
    package var liveTokens = 0
    package var newestInstance: FoundToken?
    package var service: FederationService?
    package var serviceWithURL: String?
    package var services = 0

    package init(state: StoreState) { self.state = state }

    enum SingleUseCondition {
        case unused
        case used
        case expired
    }

    /// Returns the condition of the nonce or token that was looked up.
    func condition(of item: SingleUse, _ kind: SingleUseKind, at time: Int64) -> SingleUseCondition {
        // After a clock was set back, removed values must stay refused.
        let removed = kind == .nonce ? state.noncesRemoved : state.tokensRemoved
        guard item.expiresAt > max(time, removed) else { return .expired }
        return (kind == .nonce ? isNonceUsed : isTokenUsed) ? .used : .unused
    }

    /// A row whose time has come.
    package struct DueRow {
        /// The time, in seconds since 1970-01-01T00:00:00Z.
        package let time: Int64
        /// The device of a receipt or a binding.
        package var device: DeviceID?
        /// The key of a binding.
        package var key: KeyID?
        /// Whether the device of a receipt is revoked.
        package var isRevoked = false

        package init(time: Int64, device: DeviceID? = nil, key: KeyID? = nil, isRevoked: Bool = false) {
            self.time = time
            self.device = device
            self.key = key
            self.isRevoked = isRevoked
        }
    }
}

/// The properties of a store as a whole. Times are in seconds since 1970-01-01T00:00:00Z.
package struct StoreState: Equatable {
    package var identity: StoreIdentity
    /// The number of the epoch, which grows with each fresh one.
    package var epochNumber: Int64
    /// The latest expiry of a used nonce that was removed. Nonces that expire by then are refused.
    package var noncesRemoved: Int64
    /// The same for admission tokens.
    package var tokensRemoved: Int64
    /// The number of the latest revocation list.
    package var revocationList: Int64

    package init(
        identity: StoreIdentity, epochNumber: Int64 = 0, noncesRemoved: Int64 = 0, tokensRemoved: Int64 = 0,
        revocationList: Int64 = 0
    ) {
        self.identity = identity
        self.epochNumber = epochNumber
        self.noncesRemoved = noncesRemoved
        self.tokensRemoved = tokensRemoved
        self.revocationList = revocationList
    }

    /// Returns the state with a fresh epoch.
    ///
    /// - Parameters:
    ///   - number: The minimum number of the epoch.
    ///   - tokenEnd: The time up to which expiring admission tokens are refused.
    ///   - latest: The upper limit for the time that was set before.
    package func renewed(
        _ epoch: RandomID, numbered number: Int64 = 0, refusingTokensUntil tokenEnd: Int64 = 0,
        atMost latest: Int64 = .max
    ) -> StoreState {
        // Nonces belong to an epoch, so removed ones cannot return.
        StoreState(
            identity: StoreIdentity(store: identity.store, epoch: epoch), epochNumber: max(epochNumber + 1, number),
            noncesRemoved: 0, tokensRemoved: max(min(tokensRemoved, latest), tokenEnd),
            revocationList: revocationList)
    }

    /// Returns the state after an import. Earlier challenges and nonces are refused, and tokens that may have been used.
    ///
    /// - Parameters:
    ///   - head: The head of the export. Nil if it has none.
    ///   - identity: The new identity of the store.
    ///   - time: The current time, in seconds since 1970-01-01T00:00:00Z.
    package func imported(_ head: ExportHead?, as identity: StoreIdentity, at time: Int64) -> StoreState {
        var state = renewed(
            identity.epoch,
            refusingTokensUntil: max(head?.tokensRefused(at: time) ?? 0, time + SingleUse.longestTokenLife))
        state.identity = identity
        state.revocationList = max(revocationList, head?.revocationList ?? 0)
        return state
    }
}

/// The kinds of values that can be used once.
package enum SingleUseKind: CaseIterable {
    case nonce
    case token
}

/// A write to a store. Times are in seconds since 1970-01-01T00:00:00Z.
package enum StoreWrite {
    /// Insert a device with all that belongs to it.
    case insert(ExportedDevice)
    /// Bind a key that was never bound.
    case bind(KeyID, to: DeviceID, at: Int64)
    /// End an active binding.
    case endBinding(KeyID, of: DeviceID, at: Int64)
    /// End a binding at its scheduled time, which has come.
    case expireBinding(KeyID, of: DeviceID)
    /// Schedule the end of a binding. A binding that ends earlier is not prolonged.
    case scheduleEnd(KeyID, of: DeviceID, at: Int64)
    /// Schedule the end of all active bindings of a device. A binding that ends earlier is not prolonged.
    case scheduleEnds(of: DeviceID, at: Int64)
    /// Revoke a device that is not revoked.
    case revoke(DeviceID, at: Int64)
    /// Restore a device. Its key is no longer barred, and its receipt is due.
    case restore(DeviceID, at: Int64)
    case approve(DeviceID, at: Int64)
    case activate(DeviceID, at: Int64)
    case setSubject(Fingerprint, of: DeviceID)
    /// Record the day on which devices were seen. A later day stays.
    case see(SeenDevices)
    /// Spend a counter value, with the window and the extensions after it.
    case spend(UInt32, of: DeviceID, CounterWindow, ShownExtensions)
    /// Mark an unused value as used.
    case use(SingleUse, SingleUseKind)
    case issue(CertificateSerial, for: KeyID, until: Int64)
    case barSubject(Fingerprint, at: Int64)
    case barKey(KeyID, BarredKeyKind, at: Int64)
    case setState(StoreState)
    case scheduleReceipt(DeviceID, at: Int64)
    /// Replace what a phone has attested, and add the serial numbers.
    case keepPhone(AttestedPhone, of: DeviceID)
    /// Replace whether an Android phone's certificate key is attested.
    case keepKeyAttestation(CertificateKeyAttestation, of: DeviceID, at: Int64)
    /// Record that a device was attested again, and the system version if it is stated.
    case keepEvidence(Reattestation.Evidence, of: DeviceID, at: Int64)
    /// Replace what a device on Apple's systems has shown of its app.
    case keepApp(ShownApp, of: DeviceID)
    /// Replace what an app says of its phone.
    case keepSignals(Signals, of: DeviceID)
    /// Mark that a device's keys rest on a listed certificate, or no longer.
    case markListed(DeviceID, Bool)
    /// Replace the state of a receipt, and its content if there is a newer one.
    case keepReceipt(of: DeviceID, content: [UInt8]?, riskMetric: UInt32?, ReceiptRefresh)
    /// Remove the oldest rows up to an expiry and a number.
    case removeUsed(SingleUseKind, until: Int64, limit: Int)
    case removeCertificates(until: Int64, limit: Int)
    case federation(FederationWrite)

    /// Whether the write changes the validity of devices, bindings or people, which the revocation journal must know.
    package var changesValidity: Bool {
        switch self {
        case .endBinding, .scheduleEnd, .scheduleEnds, .revoke, .restore, .barSubject, .barKey: true
        default: false
        }
    }
}

/// A write to the federation's tables. Times are in seconds since 1970-01-01T00:00:00Z.
package enum FederationWrite {
    case insert(FederationToken)
    /// Revoke a token, but none that was derived from it.
    case retire(Fingerprint, at: Int64)
    /// Revoke a token, and all that were derived from it.
    case revoke(Fingerprint, at: Int64)
    /// Insert or replace a service.
    case keep(FederationService)
    /// Remove the oldest tokens up to an expiry and a number, except those from which others were derived.
    case remove(until: Int64, limit: Int)
}
