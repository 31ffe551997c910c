internal import Encoding
internal import Registry
internal import Vocabulary

/// A device as JSON, for the socket and `--json`. Members are never renamed or omitted, except `bindings`, `receipt`,
/// `os_version`, `phone`, `posture`, `signals` and `federation_tokens`.
public struct DeviceDocument: Codable, Equatable, Sendable {
    public let device: Int64
    /// Base64 of the hardware key's id: Apple's `keyId`.
    public let keyID: String
    public let appID: String
    public let platform: String
    public let environment: String
    /// The state: `pending`, `active` or `revoked`.
    public let state: String
    /// The time of registration in RFC 3339, UTC.
    public let registeredAt: String
    /// The time of approval in RFC 3339, UTC. Null if no operator has approved the device.
    public let approvedAt: String?
    /// The time of revocation in RFC 3339, UTC. Null unless revoked.
    public let revokedAt: String?
    /// The date of the last request for which the registry was asked about it, in UTC: `2026-11-27`. Null if there was
    /// none, and from gateways that do not record it.
    public let lastSeen: String?
    /// The highest accepted counter.
    public let counter: UInt32
    /// Base64 of the pseudonym of the person it was admitted for. Null if no token named one.
    public let subject: String?
    /// The extensions that the key must show, with Apple's names. Nil from gateways that do not check them.
    public let shownExtensions: [String]?
    /// The bindings, oldest first. Absent in pages.
    public let bindings: [BindingDocument]?
    /// The receipt. Null if the attestation had none. Absent in pages.
    public let receipt: ReceiptDocument?
    /// The system version in the attestation. Null if it states none. Absent in pages.
    public let systemVersion: String?
    /// What an Android phone has attested. Null for others. Absent in pages.
    public let phone: PhoneDocument?
    /// The tokens of the federation that have not expired, the newest first. Absent unless there are some.
    public let federationTokens: [FederationTokenDocument]?
    /// What policies see of the device. Absent in pages, and from earlier gateways.
    public let posture: PostureDocument?
    /// What its app says of the phone. Null if it says nothing. Absent in pages, and from earlier gateways.
    public let signals: SignalsDocument?

    private enum CodingKeys: String, CodingKey {
        case device, platform, environment, state, counter, subject, bindings, receipt, phone, posture, signals
        case keyID = "key_id"
        case appID = "app_id"
        case registeredAt = "registered_at"
        case lastSeen = "last_seen"
        case approvedAt = "approved_at"
        case revokedAt = "revoked_at"
        case shownExtensions = "shown_extensions"
        case systemVersion = "os_version"
        case federationTokens = "federation_tokens"
    }

    init(
        _ device: Device, bindings: [Binding]? = nil, receipt: ReceiptDocument? = nil,
        systemVersion: SystemVersion? = nil, phone: PhoneDocument? = nil, posture: PostureDocument? = nil,
        signals: SignalsDocument? = nil, tokens: [FederationToken] = []
    ) {
        self.signals = signals
        federationTokens = tokens.isEmpty ? nil : tokens.map { FederationTokenDocument($0) }
        self.device = device.id.number
        keyID = device.identity.hardwareKey.base64
        appID = device.identity.app.description
        platform = device.identity.platform.rawValue
        environment = device.identity.environment.rawValue
        state = device.state.rawValue
        registeredAt = InternetTime.text(of: device.registeredAt)
        approvedAt = device.approvedAt.map(InternetTime.text(of:))
        revokedAt = device.revokedAt.map(InternetTime.text(of:))
        lastSeen = device.lastSeen.map(DeviceSearch.date)
        counter = device.highestCounter
        subject = device.subject.map { Base64.encode($0.bytes) }
        shownExtensions = device.shown.names
        self.bindings = bindings?.map(BindingDocument.init)
        self.receipt = receipt
        self.systemVersion = systemVersion?.description
        self.phone = phone
        self.posture = posture
    }

    init(_ details: DeviceDetails, tokens: [FederationToken] = []) {
        self.init(
            details.device, bindings: details.bindings,
            receipt: details.refresh.map { ReceiptDocument($0, riskMetric: details.attestation?.riskMetric) },
            systemVersion: details.attestation?.systemVersion,
            phone: details.attestation.flatMap { PhoneDocument($0) },
            posture: PostureDocument(Posture(details, binding: details.bindings.last { $0.isActive }?.key)),
            signals: details.signals.map(SignalsDocument.init), tokens: tokens)
    }

    public func encode(to encoder: any Encoder) throws {
        var members = encoder.container(keyedBy: CodingKeys.self)
        try members.encode(device, forKey: .device)
        try members.encode(keyID, forKey: .keyID)
        try members.encode(appID, forKey: .appID)
        try members.encode(platform, forKey: .platform)
        try members.encode(environment, forKey: .environment)
        try members.encode(state, forKey: .state)
        try members.encode(registeredAt, forKey: .registeredAt)
        // The synthesized encoder would omit null.
        try members.encode(approvedAt, forKey: .approvedAt)
        try members.encode(revokedAt, forKey: .revokedAt)
        try members.encode(lastSeen, forKey: .lastSeen)
        try members.encode(counter, forKey: .counter)
        try members.encode(subject, forKey: .subject)
        try members.encode(shownExtensions, forKey: .shownExtensions)
        try members.encodeIfPresent(bindings, forKey: .bindings)
        if bindings != nil {
            try members.encode(receipt, forKey: .receipt)
            try members.encode(systemVersion, forKey: .systemVersion)
            try members.encode(phone, forKey: .phone)
            try members.encode(signals, forKey: .signals)
        }
        try members.encodeIfPresent(posture, forKey: .posture)
        try members.encodeIfPresent(federationTokens, forKey: .federationTokens)
    }

    /// Returns the difference between device and registration, or nil. Later revocation is ignored.
    func difference(from registration: DeviceRegistration) -> String? {
        // The key id is equal, because the device was found by it.
        if appID != registration.app.description { return "for the app '\(appID)'" }
        if platform != registration.platform.rawValue { return "for the platform '\(platform)'" }
        if environment != registration.environment.rawValue { return "for the environment '\(environment)'" }
        let isBound = bindings?.contains {
            $0.keyID == registration.certificateKey.id.base64 && $0.endedAt == nil
        }
        return isBound == true ? nil : "with another certificate key"
    }
}

extension ShownExtensions {
    fileprivate var names: [String] {
        var names: [String] = []
        if contains(.validationCategory) { names.append("apple_validation_category_01") }
        if contains(.bundleVersion) { names.append("apple_bundle_version_01") }
        return names
    }
}

public struct BindingDocument: Codable, Equatable, Sendable {
    /// Base64 of the certificate key's id.
    public let keyID: String
    /// The time of creation in RFC 3339, UTC.
    public let createdAt: String
    /// The time at which the binding was ended, in RFC 3339, UTC. Null while it is active.
    public let endedAt: String?
    /// The time at which the binding ends or ended by itself, in RFC 3339, UTC. Null if there is none.
    public let endsAt: String?

    private enum CodingKeys: String, CodingKey {
        case keyID = "key_id"
        case createdAt = "created_at"
        case endedAt = "ended_at"
        case endsAt = "ends_at"
    }

    init(_ binding: Binding) {
        keyID = binding.key.base64
        createdAt = InternetTime.text(of: binding.createdAt)
        endedAt = binding.endedAt.map(InternetTime.text(of:))
        endsAt = binding.endsAt.map(InternetTime.text(of:))
    }

    public func encode(to encoder: any Encoder) throws {
        var members = encoder.container(keyedBy: CodingKeys.self)
        try members.encode(keyID, forKey: .keyID)
        try members.encode(createdAt, forKey: .createdAt)
        try members.encode(endedAt, forKey: .endedAt)
        try members.encode(endsAt, forKey: .endsAt)
    }
}

/// The newest receipt of a device. Times are in RFC 3339, UTC.
public struct ReceiptDocument: Codable, Equatable, Sendable {
    /// The number of recently attested keys of the phone. Null if the receipt states none.
    public let riskMetric: UInt32?
    /// The time of creation. Null until the receipt was examined.
    public let createdAt: String?
    /// The time of the next examination. Null for never.
    public let nextAt: String?
    /// The time of the last request for a newer receipt. Null for never.
    public let askedAt: String?
    /// The last outcome, as in `ReceiptOutcome`. Null before the first.
    public let outcome: String?
    /// The number of successive failures.
    public let failures: Int

    private enum CodingKeys: String, CodingKey {
        case outcome, failures
        case riskMetric = "risk_metric"
        case createdAt = "created_at"
        case nextAt = "next_at"
        case askedAt = "asked_at"
    }

    init(_ refresh: ReceiptRefresh, riskMetric: UInt32?) {
        self.riskMetric = riskMetric
        createdAt = refresh.createdAt.map(InternetTime.text(of:))
        nextAt = refresh.nextAt.map(InternetTime.text(of:))
        askedAt = refresh.askedAt.map(InternetTime.text(of:))
        outcome = refresh.outcome?.rawValue
        failures = refresh.failures
    }

    public func encode(to encoder: any Encoder) throws {
        var members = encoder.container(keyedBy: CodingKeys.self)
        try members.encode(riskMetric, forKey: .riskMetric)
        try members.encode(createdAt, forKey: .createdAt)
        try members.encode(nextAt, forKey: .nextAt)
        try members.encode(askedAt, forKey: .askedAt)
        try members.encode(outcome, forKey: .outcome)
        try members.encode(failures, forKey: .failures)
    }
}

/// What an Android phone has attested.
public struct PhoneDocument: Codable, Equatable, Sendable {
    /// The app's name for the device, in base64url.
    public let tag: String
    /// Where the hardware key lives: `tee` or `strongbox`.
    public let securityLevel: String
    /// The software that the phone was started with: `verified`, `self-signed`, `unverified` or `failed`.
    public let bootState: String
    public let isBootloaderLocked: Bool
    /// The key that has verified that software, in hexadecimal.
    public let bootKey: String
    /// The security patch levels, as `2026-01` and `2026-01-05`. Null if not stated.
    public let patchLevel: String?
    public let vendorPatchLevel: String?
    public let bootPatchLevel: String?
    /// The app's version code.
    public let appVersion: Int64
    /// What Google Play said of the device, as `MEETS_STRONG_INTEGRITY`. Null if it was never asked.
    public let integrity: [String]?
    /// The time of that verdict in RFC 3339, UTC. Null if there is none.
    public let integrityAt: String?
    /// The serial numbers of the certificates that vouch for the phone's keys, in hexadecimal.
    public let serials: [String]
    /// Whether Google has listed one of them as revoked, so that the device is refused.
    public let isKeyListed: Bool

    private enum CodingKeys: String, CodingKey {
        case tag, integrity, serials
        case integrityAt = "integrity_at"
        case isKeyListed = "key_listed"
        case securityLevel = "security_level"
        case bootState = "boot_state"
        case isBootloaderLocked = "bootloader_locked"
        case bootKey = "boot_key"
        case patchLevel = "patch_level"
        case vendorPatchLevel = "vendor_patch_level"
        case bootPatchLevel = "boot_patch_level"
        case appVersion = "app_version"
    }

    /// - Returns: nil for other phones.
    init?(_ attestation: AttestationRecord) {
        guard let phone = attestation.phone else { return nil }
        let name = attestation.tag ?? []
        tag = Base64URL.encode(name.span)
        securityLevel = phone.securityLevel.rawValue
        bootState = phone.bootState.rawValue
        isBootloaderLocked = phone.isLocked
        bootKey = Hexadecimal.encode(phone.bootKey)
        patchLevel = phone.patchLevel.map(Posture.date(ofPatchLevel:))
        vendorPatchLevel = phone.vendorPatchLevel.map(Posture.date(ofPatchLevel:))
        bootPatchLevel = phone.bootPatchLevel.map(Posture.date(ofPatchLevel:))
        appVersion = phone.appVersion
        integrity = phone.integrity?.devices
        integrityAt = phone.integrity.map { InternetTime.text(of: $0.requestedAt) }
        serials = phone.serials
        isKeyListed = attestation.isKeyListed
    }

    public func encode(to encoder: any Encoder) throws {
        var members = encoder.container(keyedBy: CodingKeys.self)
        try members.encode(tag, forKey: .tag)
        try members.encode(securityLevel, forKey: .securityLevel)
        try members.encode(bootState, forKey: .bootState)
        try members.encode(isBootloaderLocked, forKey: .isBootloaderLocked)
        try members.encode(bootKey, forKey: .bootKey)
        try members.encode(patchLevel, forKey: .patchLevel)
        try members.encode(vendorPatchLevel, forKey: .vendorPatchLevel)
        try members.encode(bootPatchLevel, forKey: .bootPatchLevel)
        try members.encode(appVersion, forKey: .appVersion)
        try members.encode(integrity, forKey: .integrity)
        try members.encode(integrityAt, forKey: .integrityAt)
        try members.encode(serials, forKey: .serials)
        try members.encode(isKeyListed, forKey: .isKeyListed)
    }
}

/// A page of devices in the order of their numbers.
public struct DevicePage: Codable, Equatable, Sendable {
    public let devices: [DeviceDocument]
    /// The device number after which the next page begins. Null for the last page.
    public let next: Int64?

    /// Creates a page.
    ///
    /// - Parameter devices: One device more than the limit, if there are as many.
    init(_ devices: [Device], limit: Int) {
        self.devices = devices.prefix(limit).map { DeviceDocument($0) }
        next = devices.count > limit ? self.devices.last?.device : nil
    }

    public init(devices: [DeviceDocument], next: Int64?) {
        self.devices = devices
        self.next = next
    }

    private enum CodingKeys: String, CodingKey {
        case devices, next
    }

    public func encode(to encoder: any Encoder) throws {
        var members = encoder.container(keyedBy: CodingKeys.self)
        try members.encode(devices, forKey: .devices)
        try members.encode(next, forKey: .next)
    }
}
