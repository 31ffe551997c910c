internal import Foundation
internal import Registry
internal import Vocabulary

/// A device as JSON, for the socket and for `--json` alike. Members are never renamed or left out, but for `bindings`,
/// `receipt` and `os_version`.
public struct DeviceDocument: Codable, Equatable, Sendable {
    public let device: Int64
    /// Base64 of the hardware key's id: Apple's `keyId`.
    public let keyID: String
    public let appID: String
    public let platform: String
    public let environment: String
    /// `pending`, `active` or `revoked`.
    public let state: String
    /// RFC 3339, in UTC.
    public let registeredAt: String
    /// RFC 3339, in UTC; null if no operator has approved it.
    public let approvedAt: String?
    /// RFC 3339, in UTC; null unless revoked.
    public let revokedAt: String?
    /// The highest value accepted.
    public let counter: UInt32
    /// Whom it was admitted for: base64 of the pseudonym; null if no token named anybody.
    public let subject: String?
    /// What its key has shown about the app, by Apple's names, and is held to; nil from gateways that do not look.
    public let shownExtensions: [String]?
    /// Oldest first. Not there in pages.
    public let bindings: [BindingDocument]?
    /// Null if none came with its attestation. Not there in pages.
    public let receipt: ReceiptDocument?
    /// The system version that its attestation states; null if it states none. Not there in pages.
    public let systemVersion: String?

    private enum CodingKeys: String, CodingKey {
        case device, platform, environment, state, counter, subject, bindings, receipt
        case keyID = "key_id"
        case appID = "app_id"
        case registeredAt = "registered_at"
        case approvedAt = "approved_at"
        case revokedAt = "revoked_at"
        case shownExtensions = "shown_extensions"
        case systemVersion = "os_version"
    }

    init(
        _ device: Device, bindings: [Binding]? = nil, receipt: ReceiptDocument? = nil,
        systemVersion: SystemVersion? = nil
    ) {
        self.device = device.id.number
        keyID = device.identity.hardwareKey.base64
        appID = device.identity.app.description
        platform = device.identity.platform.rawValue
        environment = device.identity.environment.rawValue
        state = device.state.rawValue
        registeredAt = Timestamp.text(of: device.registeredAt)
        approvedAt = device.approvedAt.map(Timestamp.text)
        revokedAt = device.revokedAt.map(Timestamp.text)
        counter = device.highestCounter
        subject = device.subject.map { Data($0.bytes).base64EncodedString() }
        shownExtensions = device.shown.names
        self.bindings = bindings?.map(BindingDocument.init)
        self.receipt = receipt
        self.systemVersion = systemVersion?.description
    }

    init(_ details: DeviceDetails) {
        self.init(
            details.device, bindings: details.bindings,
            receipt: details.refresh.map { ReceiptDocument($0, riskMetric: details.attestation?.riskMetric) },
            systemVersion: details.attestation?.systemVersion)
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
        // Null where the encoder that Swift makes would leave it out.
        try members.encode(approvedAt, forKey: .approvedAt)
        try members.encode(revokedAt, forKey: .revokedAt)
        try members.encode(counter, forKey: .counter)
        try members.encode(subject, forKey: .subject)
        try members.encode(shownExtensions, forKey: .shownExtensions)
        try members.encodeIfPresent(bindings, forKey: .bindings)
        if bindings != nil {
            try members.encode(receipt, forKey: .receipt)
            try members.encode(systemVersion, forKey: .systemVersion)
        }
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
    /// RFC 3339, in UTC.
    public let createdAt: String
    /// RFC 3339, in UTC; null while the binding is active.
    public let endedAt: String?
    /// RFC 3339, in UTC: when it ends by itself, or did; null if nothing ends it.
    public let endsAt: String?

    private enum CodingKeys: String, CodingKey {
        case keyID = "key_id"
        case createdAt = "created_at"
        case endedAt = "ended_at"
        case endsAt = "ends_at"
    }

    init(_ binding: Binding) {
        keyID = binding.key.base64
        createdAt = Timestamp.text(of: binding.createdAt)
        endedAt = binding.endedAt.map(Timestamp.text)
        endsAt = binding.endsAt.map(Timestamp.text)
    }

    public func encode(to encoder: any Encoder) throws {
        var members = encoder.container(keyedBy: CodingKeys.self)
        try members.encode(keyID, forKey: .keyID)
        try members.encode(createdAt, forKey: .createdAt)
        try members.encode(endedAt, forKey: .endedAt)
        try members.encode(endsAt, forKey: .endsAt)
    }
}

/// What is known of the newest receipt of a device. Times are RFC 3339, in UTC.
public struct ReceiptDocument: Codable, Equatable, Sendable {
    /// How many keys the phone had attested lately; null if the receipt does not say.
    public let riskMetric: UInt32?
    /// When it was made; null until somebody has looked.
    public let createdAt: String?
    /// When it is looked at next; null if never.
    public let nextAt: String?
    /// When a newer one was last asked for; null if never.
    public let askedAt: String?
    /// What came of it last, as `ReceiptOutcome` has it; null if nothing has yet.
    public let outcome: String?
    /// How often in a row nothing good has come of it.
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
        createdAt = refresh.createdAt.map(Timestamp.text)
        nextAt = refresh.nextAt.map(Timestamp.text)
        askedAt = refresh.askedAt.map(Timestamp.text)
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

/// Some devices, in the order of their numbers.
public struct DevicePage: Codable, Equatable, Sendable {
    public let devices: [DeviceDocument]
    /// The device number after which the next page begins; null if there is none.
    public let next: Int64?

    /// - Parameter devices: one more than the limit, if there are so many.
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
