import Vocabulary

@testable import Registry

/// A device without its number, which another store assigns again.
struct ComparableDevice: Equatable {
    let identity: DeviceIdentity
    let state: DeviceState
    let times: [Int64?]
    let highest: UInt32
    let subject: Fingerprint?
    let shown: ShownExtensions
    let bindings: [ExportedBinding]
    let digest: Fingerprint?
    let certificateKey: KeyID?
    let receipt: [UInt8]?
    let risk: UInt32?
    let systemVersion: SystemVersion?
    let app: ShownApp?
    let attestedAt: Int64?
    let isCertificateKeyAttested: Bool?
    let refresh: ReceiptRefresh?
}

extension DeviceDetails {
    var comparable: ComparableDevice {
        ComparableDevice(
            identity: device.identity, state: device.state,
            times: [device.registeredAt, device.approvedAt, device.revokedAt], highest: device.highestCounter,
            subject: device.subject, shown: device.shown,
            bindings: bindings.map {
                ExportedBinding(key: $0.key, createdAt: $0.createdAt, endsAt: $0.endsAt, endedAt: $0.endedAt)
            },
            digest: attestation?.digest, certificateKey: attestation?.certificateKey, receipt: attestation?.receipt,
            risk: attestation?.riskMetric, systemVersion: attestation?.systemVersion, app: attestation?.app,
            attestedAt: attestation?.attestedAt, isCertificateKeyAttested: attestation?.isCertificateKeyAttested,
            refresh: refresh)
    }
}

extension ExportedDevice {
    var comparable: ComparableDevice {
        ComparableDevice(
            identity: identity, state: revokedAt != nil ? .revoked : activatedAt == nil ? .pending : .active,
            times: [registeredAt, approvedAt, revokedAt], highest: window.highest, subject: subject, shown: shown,
            bindings: bindings, digest: attestation?.digest, certificateKey: attestation?.certificateKey,
            receipt: receipt?.content, risk: receipt?.riskMetric,
            systemVersion: attestation?.systemVersion, app: attestation?.app, attestedAt: attestation?.attestedAt,
            isCertificateKeyAttested: attestation?.isCertificateKeyAttested, refresh: receipt?.refresh)
    }
}
