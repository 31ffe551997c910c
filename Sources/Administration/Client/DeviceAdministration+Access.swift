internal import Foundation
internal import Registry

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
