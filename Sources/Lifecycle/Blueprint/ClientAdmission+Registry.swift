internal import Registry
internal import TLS
internal import Vocabulary

extension ClientAdmission {
    /// The same, with the registry's word against a key, as far as its memory knows. `TLS` knows no registry, and waits for
    /// none.
    func asking(_ registry: DeviceRegistry?) -> ClientAdmission {
        guard let registry else { return self }
        return asking { key in
            switch registry.knownStanding(of: key) {
            case .deviceRevoked: .deviceRevoked
            case .bindingEnded: .bindingEnded
            case .active, nil: nil
            }
        }
    }
}
