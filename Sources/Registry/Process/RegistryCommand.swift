public import Vocabulary

/// An operation on the registry. The same for the thread of a running gateway and for a command line that has the file to
/// itself.
public enum RegistryCommand: Sendable {
    /// Registers a device, bound to an mTLS key if one is given.
    case register(DeviceIdentity, binding: KeyID?)
    case bind(KeyID, to: DeviceID)
    case endBinding(KeyID)
    case revoke(DeviceID)
    case restore(DeviceID)
    /// One page of devices, in the order of their ids, from after one on.
    case list(after: DeviceID?, limit: Int)
    case show(DeviceSelector)
    /// Draws a fresh epoch, so that every challenge handed out before is refused.
    case renewEpoch
}

public enum RegistryReply: Equatable, Sendable {
    /// The device concerned, as it is now.
    case device(DeviceDetails)
    case devices([Device])
    case identity(StoreIdentity)
}

extension RegistryStore {
    public func perform(_ command: RegistryCommand) -> Result<RegistryReply, StoreError> {
        do throws(StoreError) {
            switch command {
            case .register(let identity, let key): return .success(.device(try register(identity, binding: key)))
            case .bind(let key, let device): return .success(.device(try bind(key, to: device)))
            case .endBinding(let key): return .success(.device(try endBinding(key)))
            case .revoke(let device): return .success(.device(try revoke(device)))
            case .restore(let device): return .success(.device(try restore(device)))
            case .list(let after, let limit): return .success(.devices(try devices(after: after, limit: limit)))
            case .show(let selector): return .success(.device(try show(selector)))
            case .renewEpoch: return .success(.identity(try renewEpoch()))
            }
        } catch {
            return .failure(error)
        }
    }
}
