import RegistryMemory
import Vocabulary

@testable package import Registry
@testable package import RegistrySQLite

extension RegistryStore {
    /// Registers devices 1 to `count`, each bound to the key of its number.
    @discardableResult
    func populate(_ count: Int) throws -> [DeviceID] {
        try (1...count).map {
            try register(Fixture.identity($0), binding: Fixture.bindingKey($0), at: 1_000).device.id
        }
    }

    func entry(
        _ device: Int, _ counter: UInt32, showing shown: ShownExtensions = [], mode: CounterMode = .strict
    ) -> CounterEntry {
        guard let id = DeviceID(Int64(device)) else { fatalError("devices are numbered from 1") }
        return CounterEntry(
            device: id, binding: Fixture.bindingKey(device), counter: counter, epoch: identity.epoch, shown: shown,
            mode: mode)
    }

    func commit(
        _ device: Int, _ counter: UInt32, showing shown: ShownExtensions = [], mode: CounterMode = .strict
    ) -> CounterOutcome {
        commit([entry(device, counter, showing: shown, mode: mode)])[0]
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

extension RegistryStore: OperatedStore {
    package func answer(_ command: RegistryCommand, at time: Int64) throws -> RegistryReply {
        try perform(command, at: time).get()
    }

    func endDueBindings(at time: Int64, limit: Int) throws -> [KeyID] {
        try decide(UpkeepRules.endDueBindings(at: time, limit: limit)).ended
    }

    /// - Returns: whether there are more.
    func removeExpired(at time: Int64, limit: Int = 500) throws -> Bool {
        try SingleUseKind.allCases.map { try decide(UpkeepRules.removeUsed($0, at: time, limit: limit)).isMoreLeft }
            .contains(true)
    }

    func removeEndedCertificates(at time: Int64, limit: Int = 500) throws -> Bool {
        try decide(UpkeepRules.removeCertificates(at: time, limit: limit)).isMoreLeft
    }
}
