public import Cryptography
public import EventLoop
internal import Foundation
public import Registry
public import RegistryPostgreSQL
internal import RegistrySQLite
public import RevocationJournal
public import Vocabulary

/// Operations of the command line on the registry and its devices, through a running gateway or directly on the
/// registry's file.
public struct DeviceAdministration: Sendable {
    let registryPath: String?
    let witness: WitnessSettings?
    let socketPath: String?
    /// The database, only for exports and imports. Its devices are administered through a gateway.
    let database: PostgreSQLSettings?

    /// Creates a value.
    ///
    /// - Parameters:
    ///   - registryPath: The registry's file. Nil for a database, so that only a running gateway can be asked.
    ///   - witness: The witness with which the file is compared.
    ///   - socketPath: The administration socket of a running gateway. Nil if there is none.
    ///   - database: The database, if the registry is not a file.
    ///   - attempts: The number of attempts while the file is locked and no process answers at the socket.
    ///   - patience: The timeout of each question to a gateway.
    public init(
        registryPath: String?, witness: WitnessSettings? = nil, socketPath: String?,
        database: PostgreSQLSettings? = nil, attempts: Int = 20, patience: TimeSpan = .seconds(10)
    ) {
        self.registryPath = registryPath
        self.witness = witness
        self.socketPath = socketPath
        self.database = database
        self.attempts = attempts
        self.patience = patience
    }

    /// The number of attempts while the file is locked and no process answers at the socket. A gateway may be starting,
    /// or another command running.
    let attempts: Int
    let patience: TimeSpan

    public func perform(_ operation: DeviceOperation) throws(DeviceAdministrationError) -> DeviceAnswer {
        // Only adding creates a registry. For other operations, an empty one would hide a wrong path.
        try ask(creating: operation.isAddition) { client throws(AdministrationClientError) in
            try client.perform(operation)
        } file: { store throws(DeviceAdministrationError) in
            try operation.performed(on: store)
        }
    }

    /// Lists or changes services of the federation.
    ///
    /// - Returns: all, or the changed one.
    public func perform(_ operation: ServiceOperation) throws(DeviceAdministrationError) -> ServiceList {
        try ask { client throws(AdministrationClientError) in
            try client.perform(operation)
        } file: { store throws(DeviceAdministrationError) in
            guard case .success(let reply) = store.perform(operation.command) else { throw .unavailable(store) }
            do throws(AdministrationFault) { return try operation.answer(reply) } catch { throw .refused(error) }
        }
    }

    /// Draws a new epoch. All earlier challenges, nonces and proofs become invalid.
    public func renewEpoch() throws(DeviceAdministrationError) {
        try ask { client throws(AdministrationClientError) in
            try client.renewEpoch()
        } file: { store throws(DeviceAdministrationError) in
            guard case .success = store.perform(.renewEpoch) else { throw .unavailable(store) }
        }
    }

    /// Permanently revokes all devices of a subject and prevents new ones.
    ///
    /// - Parameter subjects: Returns the pseudonym key and the check value of its secret. It is called only if no
    ///   gateway runs.
    /// - Returns: the devices that were not revoked before.
    public func revoke(
        _ subject: SubjectName,
        subjects: () throws(DeviceAdministrationError) -> (names: SubjectPseudonyms, check: Fingerprint?)
    ) throws(DeviceAdministrationError) -> [DeviceDocument] {
        try ask { client throws(AdministrationClientError) in
            try client.revoke(subject)
        } file: { store throws(DeviceAdministrationError) in
            let (names, check) = try subjects()
            let known: Fingerprint?
            do throws(StoreError) { known = try store.secretCheck() } catch { throw .unavailable(store) }
            // With another secret, the wrong pseudonym would be revoked.
            guard known == nil || known == check else {
                throw .failed("the registry uses another secret than the conf file's: nothing was changed")
            }
            let command = RegistryCommand.revokeSubject(try subject.fingerprint(names))
            guard case .success(.revoked(let devices)) = store.perform(command) else { throw .unavailable(store) }
            return devices.map { DeviceDocument($0.device) }
        }
    }

    /// Returns the content of the GMS CA's next revocation list: a new number and the certificates.
    public func revocations()
        throws(DeviceAdministrationError) -> (number: Int64, certificates: [RevokedCertificate])
    {
        try ask { client throws(AdministrationClientError) in
            // The number is drawn first, so that a list with a greater number has newer content.
            let number = try client.drawRevocationListNumber()
            var certificates: [RevokedCertificate] = []
            var next: CertificateSerial?
            repeat {
                let page = try client.revokedCertificates(after: next)
                certificates += page.certificates
                next = page.next
            } while next != nil
            return (number, certificates)
        } file: { store throws(DeviceAdministrationError) in
            guard case .success(.revocationListNumber(let number)) = store.perform(.drawRevocationListNumber) else {
                throw .unavailable(store)
            }
            var certificates: [RevokedCertificate] = []
            var next: CertificateSerial?
            repeat {
                let command = RegistryCommand.listRevokedCertificates(
                    after: next, limit: RevokedCertificatesDocument.pageSize)
                guard case .success(.revokedCertificates(let page)) = store.perform(command) else {
                    throw .unavailable(store)
                }
                certificates += page.certificates
                next = page.next
            } while next != nil
            return (number, certificates)
        }
    }

    /// Registers devices in order. A device that is already registered with the same keys is skipped.
    ///
    /// - Parameter progress: Called periodically.
    /// - Throws: at the first device that is refused or registered with other keys. The devices before it stay
    ///   registered.
    public func register(
        _ registrations: [DeviceRegistration], progress: @escaping (DeviceImportTally) -> Void
    ) throws(DeviceImportError) -> DeviceImportTally {
        var work = DeviceImport(registrations, progress: progress)
        switch try way() {
        case .gateway(let client): try work.run(through: client)
        case .file(let store): try work.run(on: store)
        }
        return work.tally
    }
}

extension DeviceOperation {
    fileprivate var isAddition: Bool {
        if case .add = self { true } else { false }
    }

    /// Performs the operation on a store without other users.
    func performed(on store: RegistryStore) throws(DeviceAdministrationError) -> DeviceAnswer {
        // A store answers at once.
        var result = Result<DeviceAnswer, AdministrationFault>.failure(.storeUnavailable)
        run(
            { command, done in
                done(store.perform(command).mapError { AdministrationFault($0, asking: command) })
            },
            completion: { result = $0 })
        do throws(AdministrationFault) {
            return try result.get()
        } catch {
            throw error.error == AdministrationFault.storeUnavailable.error ? .unavailable(store) : .refused(error)
        }
    }
}

/// Selection of the target: a running gateway, or the registry itself.
extension DeviceAdministration {
    /// Performs an operation.
    ///
    /// - Parameters:
    ///   - creating: Whether a missing file is created. Otherwise it must exist.
    ///   - gateway: Asks a running gateway. It is not called if there is none.
    ///   - file: Uses the registry's file if no gateway runs.
    func ask<Answer>(
        creating: Bool = false, _ gateway: (AdministrationClient) throws(AdministrationClientError) -> Answer,
        file: (RegistryStore) throws(DeviceAdministrationError) -> Answer
    ) throws(DeviceAdministrationError) -> Answer {
        try patiently { () throws(DeviceAdministrationError) -> Answer? in
            if let client {
                do throws(AdministrationClientError) { return try gateway(client) } catch {
                    let error = DeviceAdministrationError(error, of: client.socketPath)
                    guard error.isUnreachable else { throw error }
                }
            }
            return try open(creating: creating).map(file)
        }
    }

    enum Backend {
        case gateway(AdministrationClient)
        case file(RegistryStore)
    }

    func way() throws(DeviceImportError) -> Backend {
        do throws(DeviceAdministrationError) {
            return try ask(creating: true) { client throws(AdministrationClientError) in
                // The question does not matter, only that a process answers.
                _ = try client.perform(.list(after: nil, limit: 1))
                return .gateway(client)
            } file: { store in
                .file(store)
            }
        } catch {
            throw DeviceImportError(reason: error, index: nil, tally: DeviceImportTally())
        }
    }

    /// Repeats an attempt until it succeeds or time is up.
    ///
    /// - Parameter attempt: Returns nil if the file is in use and no gateway answers.
    func patiently<Answer>(
        _ attempt: () throws(DeviceAdministrationError) -> Answer?
    ) throws(DeviceAdministrationError) -> Answer {
        for _ in 1..<attempts {
            if let answer = try attempt() { return answer }
            Thread.sleep(forTimeInterval: 0.1)
        }
        if let answer = try attempt() { return answer }
        throw .locked(registry: registryPath ?? "the registry", socket: socketPath)
    }

    /// A client of the gateway that may be running.
    var client: AdministrationClient? {
        socketPath.map { AdministrationClient(socketPath: $0, patience: patience) }
    }

    /// Opens the registry itself.
    ///
    /// - Parameter isLoading: Whether it is for an import, which creates a missing registry.
    /// - Returns: nil if its file is in use.
    func openAtRest(isLoading: Bool) throws(DeviceAdministrationError) -> (any RegistryAtRest)? {
        guard let database else {
            return try open(creating: isLoading, isLoading: isLoading)
        }
        do throws(StoreOpenError) {
            return try DatabaseAtRest(database, isLoading: isLoading)
        } catch {
            throw .store(error.description)
        }
    }

    /// Opens the registry's file.
    ///
    /// - Returns: nil if it is in use.
    func open(creating: Bool, isLoading: Bool = false) throws(DeviceAdministrationError) -> RegistryStore? {
        guard let registryPath else {
            throw .failed(
                "the registry is in a database and can be administered only through a running gateway, "
                    + (socketPath.map { "but none answers at \($0)" }
                        ?? "but the conf file names no administration socket"))
        }
        do throws(StoreOpenError) {
            var options = StoreOptions()
            options.isLoading = isLoading
            return try RegistryStore(path: registryPath, creating: creating, options: options, witness: witness)
        } catch {
            if case .locked = error { return nil }
            throw .store(error.description)
        }
    }
}
