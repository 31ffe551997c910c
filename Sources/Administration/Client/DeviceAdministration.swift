public import Cryptography
internal import EventLoop
internal import Foundation
public import Registry
public import Vocabulary

/// Operations on the registry and its devices for a command line: through a running gateway if there is one, on the registry's file if not.
public struct DeviceAdministration: Sendable {
    let registryPath: String?
    let witness: WitnessSettings?
    let socketPath: String?
    /// Only for exports and imports: devices in a database are administered through a gateway.
    let database: PostgreSQLSettings?

    /// - Parameters:
    ///   - registryPath: the registry's file; nil if it is none, so that only a running gateway can be asked.
    ///   - witness: what the file is compared with.
    ///   - socketPath: where a running gateway serves its administration; nil if it serves none.
    ///   - database: where the registry lies if it is no file.
    public init(
        registryPath: String?, witness: WitnessSettings?, socketPath: String?, database: PostgreSQLSettings? = nil
    ) {
        self.init(
            registryPath: registryPath, witness: witness, socketPath: socketPath, database: database, attempts: 20,
            patience: .seconds(10))
    }

    init(
        registryPath: String?, witness: WitnessSettings? = nil, socketPath: String?,
        database: PostgreSQLSettings? = nil, attempts: Int, patience: TimeSpan
    ) {
        self.registryPath = registryPath
        self.witness = witness
        self.socketPath = socketPath
        self.database = database
        self.attempts = attempts
        self.patience = patience
    }

    /// How often to look again while somebody has the file and nobody the socket: a gateway that is starting, or another
    /// command.
    let attempts: Int
    let patience: TimeSpan

    public func perform(_ operation: DeviceOperation) throws(DeviceAdministrationError) -> DeviceAnswer {
        try patiently { () throws(DeviceAdministrationError) in
            if let socketPath {
                let client = AdministrationClient(socketPath: socketPath, patience: patience)
                do throws(DeviceAdministrationError) {
                    return try client.administer(operation)
                } catch {
                    guard error.isUnreachable else { throw error }
                }
            }
            // Only adding makes a registry: the others would answer from an empty one what is a wrong path.
            return try open(creating: operation.isAddition)
                .map { store throws(DeviceAdministrationError) in try operation.performed(on: store) }
        }
    }

    /// Draws a fresh epoch: every challenge and nonce handed out before is refused from then on, and so is every proof made
    /// with one.
    public func renewEpoch() throws(DeviceAdministrationError) {
        try ask { client throws(AdministrationClientError) in
            try client.renewEpoch()
        } file: { store throws(DeviceAdministrationError) in
            guard case .success = store.perform(.renewEpoch) else { throw .unavailable(store) }
        }
    }

    /// Revokes all devices that were admitted for somebody, and bars new ones, for good.
    ///
    /// - Parameter subjects: the names by which the registry knows people, and the check value of the secret they are made with; asked for
    ///   only if no gateway runs, which has them.
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
            // Under another name nobody would be found, and somebody else barred.
            guard known == nil || known == check else {
                throw .failed("the registry uses another secret than the conf file's: nothing was changed")
            }
            let command = RegistryCommand.revokeSubject(try subject.fingerprint(names))
            guard case .success(.revoked(let devices)) = store.perform(command) else { throw .unavailable(store) }
            return devices.map { DeviceDocument($0.device) }
        }
    }

    /// What the next revocation list of the GMS CA is to say: a number that none before had, and the certificates.
    public func revocations()
        throws(DeviceAdministrationError) -> (number: Int64, certificates: [RevokedCertificate])
    {
        try ask { client throws(AdministrationClientError) in
            // The number first: what a list with a greater number says was read later.
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

    /// Registers devices, in their order. One that is registered already, with the same keys, is skipped.
    ///
    /// - Parameter progress: called now and then.
    /// - Throws: at the first device that is refused, or registered otherwise; those before it stay registered.
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

    /// On a store that nobody else has.
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

/// Who is asked: a gateway that runs, or the registry itself.
extension DeviceAdministration {
    /// - Parameters:
    ///   - gateway: asks a gateway that runs; not called if there is none.
    ///   - file: uses the registry's file, which must be there, if none does.
    func ask<Answer>(
        _ gateway: (AdministrationClient) throws(AdministrationClientError) -> Answer,
        file: (RegistryStore) throws(DeviceAdministrationError) -> Answer
    ) throws(DeviceAdministrationError) -> Answer {
        try patiently { () throws(DeviceAdministrationError) -> Answer? in
            if let socketPath {
                do throws(AdministrationClientError) {
                    return try gateway(AdministrationClient(socketPath: socketPath, patience: patience))
                } catch {
                    switch error {
                    case .unreachable: break
                    case .refused(let fault): throw .refused(fault)
                    default: throw .gateway(socket: socketPath, error)
                    }
                }
            }
            guard let store = try open(creating: false) else { return nil }
            return try file(store)
        }
    }

    enum Backend {
        case gateway(AdministrationClient)
        case file(RegistryStore)
    }

    func way() throws(DeviceImportError) -> Backend {
        do throws(DeviceAdministrationError) {
            return try patiently { () throws(DeviceAdministrationError) in
                if let socketPath {
                    let client = AdministrationClient(socketPath: socketPath, patience: patience)
                    do throws(DeviceAdministrationError) {
                        // What is asked does not matter, only that somebody answers.
                        _ = try client.administer(.list(after: nil, limit: 1))
                        return .gateway(client)
                    } catch {
                        guard error.isUnreachable else { throw error }
                    }
                }
                return try open(creating: true).map { .file($0) }
            }
        } catch {
            throw DeviceImportError(reason: error, index: nil, tally: DeviceImportTally())
        }
    }

    /// - Parameter attempt: returns nil if the file is in use, and no gateway answers.
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

    /// Asks a gateway that may run.
    var client: AdministrationClient? {
        socketPath.map { AdministrationClient(socketPath: $0, patience: patience) }
    }

    /// The registry itself. - Returns: nil if its file is in use.
    ///
    /// - Parameter isLoading: whether it is for an import, which makes it where there is none.
    func openAtRest(isLoading: Bool) throws(DeviceAdministrationError) -> RegistryAtRest? {
        guard let database else {
            return try open(creating: isLoading, isLoading: isLoading).map { RegistryAtRest($0) }
        }
        do throws(StoreOpenError) {
            return try RegistryAtRest(database, isLoading: isLoading)
        } catch {
            throw .store(error.description)
        }
    }

    /// - Returns: nil if the file is in use.
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

extension AdministrationClient {
    /// The same as `perform`, its errors as the command line tells them.
    func administer(_ operation: DeviceOperation) throws(DeviceAdministrationError) -> DeviceAnswer {
        do throws(AdministrationClientError) {
            return try perform(operation)
        } catch {
            if case .refused(let fault) = error { throw .refused(fault) }
            throw .gateway(socket: socketPath, error)
        }
    }
}
