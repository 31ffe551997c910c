import Cryptography
import Registry
import Vocabulary

@testable import Administration

/// Keys and registrations as an operator has them.
enum Sample {
    /// A fresh key each time.
    static func key() throws -> DeviceKey {
        let library = try LibraryContext()
        let pem = try PrivateKey.generateP256(library).pem()
        return try DeviceKey(pem: pem, library)
    }

    static func app(_ name: String = "app") throws -> AppID {
        guard let app = AppID("ABCDE12345.org.example.\(name)") else { throw DeviceKeyFault.noKey }
        return app
    }

    static func registration() throws -> DeviceRegistration {
        DeviceRegistration(
            app: try app(), platform: .iOS, environment: .production, publicKey: try key(), certificateKey: try key())
    }
}

extension Sample {
    /// A pending device, as enrolment makes it. - Parameter number: another one for each device.
    static func initialize(_ number: UInt8, in store: RegistryStore) throws -> DeviceID {
        let key = try key()
        let identity = DeviceIdentity(
            app: try app(), platform: .iOS, environment: .production, hardwareKey: key.id, point: key.point)
        guard let fingerprint = Fingerprint([UInt8](repeating: number, count: 32)),
            let attestation = AttestationRecord(digest: fingerprint)
        else { throw DeviceKeyFault.noKey }
        let request = InstanceRegistration(
            identity: identity, attestation: attestation, shown: [],
            nonce: SingleUse(id: fingerprint, expiresAt: 2_000),
            epoch: store.identity.epoch)
        guard case .registered(let details) = try store.initialize(request, at: 1_000) else {
            throw DeviceKeyFault.noKey
        }
        return details.device.id
    }
}

extension DeviceAnswer {
    var document: DeviceDocument? {
        if case .device(let document) = self { document } else { nil }
    }

    var listed: DevicePage? {
        if case .page(let page) = self { page } else { nil }
    }
}
