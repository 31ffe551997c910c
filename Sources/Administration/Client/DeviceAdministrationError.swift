internal import Foundation
internal import Registry
internal import RegistrySQLite

/// The reason why a command failed.
public enum DeviceAdministrationError: Error, Equatable, Sendable {
    case refused(AdministrationFault)
    /// Another process has the registry open and does not answer.
    case locked(registry: String, socket: String?)
    case gateway(socket: String, AdministrationClientError)
    /// The registry's file cannot be used.
    case store(String)
    /// Another reason.
    case failed(String)

    var isUnreachable: Bool {
        if case .gateway(_, .unreachable) = self { true } else { false }
    }

    /// Converts the error of the gateway at a socket.
    init(_ error: AdministrationClientError, of socketPath: String) {
        if case .refused(let fault) = error {
            self = .refused(fault)
        } else {
            self = .gateway(socket: socketPath, error)
        }
    }

    /// Returns the error of a store, with the store's own text if it has one.
    static func unavailable(_ store: RegistryStore) -> Self {
        guard let reason = store.lastFault else { return .refused(.storeUnavailable) }
        return .store("\(store.path): \(reason)")
    }
}

extension DeviceAdministrationError: CustomStringConvertible {
    /// A message for people.
    public var description: String {
        switch self {
        case .refused(let fault): return fault.description
        case .locked(let registry, nil):
            return "\(registry) is in use by another process, but the conf file names no administration socket"
        case .locked(let registry, let socket?):
            return "\(registry) is in use by another process, but no gateway answers at \(socket)"
        case .gateway(let socket, let error):
            let what =
                switch error {
                case .unreachable(ENOENT), .unreachable(ECONNREFUSED):
                    "is not reachable: no gateway runs with this socket"
                case .unreachable(EACCES):
                    "is not reachable: permission denied; run this as root or as the gateway's user"
                case .unreachable(let code): "is not reachable: \(unsafe String(cString: strerror(code)))"
                case .refused, .failed: "cannot be asked"
                case .timeout(let mayHaveChanged): "did not respond in time" + doubt(mayHaveChanged)
                case .disconnected(let mayHaveChanged): "closed the connection" + doubt(mayHaveChanged)
                case .malformed: "sent no valid response"
                }
            return "the gateway at \(socket) \(what)"
        case .store(let reason), .failed(let reason): return reason
        }
    }

    private func doubt(_ mayHaveChanged: Bool) -> String {
        mayHaveChanged ? "; the change may have been made" : ""
    }
}
