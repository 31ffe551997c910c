internal import EventLoop
internal import Foundation
internal import Registry

/// Operations on devices for a command line: through a running gateway if there is one, on the registry's file if not.
public struct DeviceAdministration: Sendable {
    private let registryPath: String
    private let socketPath: String?

    /// - Parameters:
    ///   - registryPath: the registry's file.
    ///   - socketPath: where a running gateway serves its administration; nil if it serves none.
    public init(registryPath: String, socketPath: String?) {
        self.init(registryPath: registryPath, socketPath: socketPath, attempts: 20, patience: .seconds(10))
    }

    init(registryPath: String, socketPath: String?, attempts: Int, patience: TimeSpan) {
        self.registryPath = registryPath
        self.socketPath = socketPath
        self.attempts = attempts
        self.patience = patience
    }

    /// How often to look again while somebody has the file and nobody the socket: a gateway that is starting, or another
    /// command.
    private let attempts: Int
    private let patience: TimeSpan
    private static let pause: TimeInterval = 0.1

    public func perform(_ operation: DeviceOperation) throws(DeviceAdministrationError) -> DeviceAnswer {
        for _ in 1..<attempts {
            if let answer = try attempt(operation) { return answer }
            Thread.sleep(forTimeInterval: Self.pause)
        }
        if let answer = try attempt(operation) { return answer }
        throw .locked(registry: registryPath, socket: socketPath)
    }

    /// - Returns: nil if the file is in use, and no gateway answers.
    private func attempt(_ operation: DeviceOperation) throws(DeviceAdministrationError) -> DeviceAnswer? {
        if let socketPath {
            do throws(AdministrationClientError) {
                return try AdministrationClient(socketPath: socketPath, patience: patience).perform(operation)
            } catch {
                switch error {
                case .unreachable: break
                case .refused(let fault): throw .refused(fault)
                default: throw .gateway(socket: socketPath, error)
                }
            }
        }
        let store: RegistryStore
        do throws(StoreOpenError) {
            // Only adding makes a registry: the others would answer from an empty one what is a wrong path.
            store = try RegistryStore(path: registryPath, creating: operation.isAddition)
        } catch {
            if case .locked = error { return nil }
            throw .store(error.description)
        }
        return try Self.run(operation, on: store)
    }

    private static func run(
        _ operation: DeviceOperation, on store: RegistryStore
    ) throws(DeviceAdministrationError) -> DeviceAnswer {
        // A store answers at once.
        var result = Result<DeviceAnswer, AdministrationFault>.failure(.storeUnavailable)
        operation.run(
            { command, done in done(store.perform(command).mapError(AdministrationFault.init)) },
            completion: { result = $0 })
        do throws(AdministrationFault) {
            return try result.get()
        } catch {
            if error == .storeUnavailable, let reason = store.lastFault { throw .store("\(store.path): \(reason)") }
            throw .refused(error)
        }
    }
}

extension DeviceOperation {
    fileprivate var isAddition: Bool {
        if case .add = self { true } else { false }
    }
}

/// Why a command came to nothing.
public enum DeviceAdministrationError: Error, Equatable, Sendable {
    case refused(AdministrationFault)
    /// Somebody has the registry, and does not answer.
    case locked(registry: String, socket: String?)
    case gateway(socket: String, AdministrationClientError)
    /// The registry's file cannot be used.
    case store(String)
}

extension DeviceAdministrationError: CustomStringConvertible {
    /// For people.
    public var description: String {
        switch self {
        case .refused(let fault): return fault.description
        case .locked(let registry, nil):
            return "\(registry) is in use by another process, and the conf file names no socket to ask it by"
        case .locked(let registry, let socket?):
            return "\(registry) is in use by another process, and none answers at \(socket)"
        case .gateway(let socket, let error):
            let what =
                switch error {
                case .unreachable, .refused, .failed: "cannot be asked"
                case .timeout: "did not answer in time; the change may have been made"
                case .disconnected: "broke the connection; the change may have been made"
                case .malformed: "gave no valid answer"
                }
            return "the gateway at \(socket) \(what)"
        case .store(let reason): return reason
        }
    }
}
