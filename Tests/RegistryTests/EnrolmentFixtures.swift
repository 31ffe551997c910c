import RegistryMemory
import Vocabulary

@testable import Registry
@testable import RegistrySQLite

extension Fixture {
    /// A fingerprint that is different for each number and kind.
    static func fingerprint(_ number: Int, kind: UInt8) -> Fingerprint {
        guard let fingerprint = Fingerprint(key(number, kind: kind).bytes) else { fatalError("32 bytes") }
        return fingerprint
    }

    /// Expires at 2,000.
    static func nonce(_ number: Int) -> SingleUse { SingleUse(id: fingerprint(number, kind: 3), expiresAt: 2_000) }
    static func token(_ number: Int) -> SingleUse { SingleUse(id: fingerprint(number, kind: 4), expiresAt: 2_000) }
    static func subject(_ number: Int) -> Fingerprint { fingerprint(number, kind: 5) }

    /// That of a certificate, different for each number.
    static func serial(_ number: Int) -> CertificateSerial {
        guard let serial = CertificateSerial(random: Array(key(number, kind: 7).bytes.suffix(16))) else {
            fatalError("16 octets")
        }
        return serial
    }

    static func randomSerial() -> CertificateSerial {
        guard let serial = CertificateSerial(random: RandomID().bytes) else { fatalError("16 octets") }
        return serial
    }

    static func attestation(_ number: Int, certificateKey: KeyID? = nil) -> AttestationRecord {
        // One in five states no version.
        let record = AttestationRecord(
            digest: fingerprint(number, kind: 6), certificateKey: certificateKey, receipt: [1, 2, 3], riskMetric: 7,
            systemVersion: number % 5 == 0 ? nil : SystemVersion("17.\(number)"))
        guard let record else { fatalError("a small receipt") }
        return record
    }
}

extension RegistryStore {
    /// Device `number`, with the attestation and the nonce of that number if not said otherwise.
    func initialization(
        _ number: Int, nonce: SingleUse? = nil, attestation: AttestationRecord? = nil,
        showing shown: ShownExtensions = [],
        epoch: RandomID? = nil
    ) -> InstanceRegistration {
        InstanceRegistration(
            identity: Fixture.identity(number), attestation: attestation ?? Fixture.attestation(number),
            shown: shown, nonce: nonce ?? Fixture.nonce(number), epoch: epoch ?? identity.epoch)
    }

    /// Makes pending devices `first` to `count`, each with the nonce of its number.
    @discardableResult
    func initializeAll(_ count: Int, from first: Int = 1) throws -> [DeviceID] {
        try (first...count).map { number in
            guard case .registered(let details) = try initialize(initialization(number), at: 1_000) else {
                fatalError("a new device, a new nonce")
            }
            return details.device.id
        }
    }

    /// Binds `key` to device `number`. Nonces of bindings are those from 1,000 on.
    func keyBinding(
        _ number: Int, key: Int, nonce: Int, counter: UInt32, showing shown: ShownExtensions = [],
        mode: CounterMode = .strict, admission: AdmissionGrant = .open, overlap: Int64 = 100, epoch: RandomID? = nil,
        serial: CertificateSerial? = nil, notAfter: Int64 = 50_000
    ) -> BindingRequest {
        BindingRequest(
            hardwareKey: Fixture.hardwareKey(number), key: Fixture.bindingKey(key), nonce: Fixture.nonce(1_000 + nonce),
            epoch: epoch ?? identity.epoch, counter: counter, shown: shown, mode: mode, admission: admission,
            overlap: overlap,
            serial: serial ?? Fixture.randomSerial(), notAfter: notAfter)
    }
}

extension InitializationVerdict {
    var refusal: InitializationRefusal? { if case .refused(let refusal) = self { refusal } else { nil } }
}

extension KeyBindingVerdict {
    var refusal: KeyBindingRefusal? { if case .refused(let refusal) = self { refusal } else { nil } }
    var kind: KeyBindingKind? { if case .bound(_, let kind) = self { kind } else { nil } }
    var details: DeviceDetails? { if case .bound(let details, _) = self { details } else { nil } }
}
