import Foundation
import TrustClient
import Vocabulary

#if canImport(DeviceCheck)
    import DeviceCheck
#endif

/// The hardware key: made, attested and used by App Attest.
struct AppAttest: Attestor {
    func generateKey() async throws -> KeyID {
        guard DCAppAttestService.shared.isSupported else { throw AttestorFault.unsupported }
        let name = try await sortingErrors { try await DCAppAttestService.shared.generateKey() }
        // App Attest names the key by its key id in base64.
        guard let keyID = KeyID(base64: name) else { throw AttestorFault.unsupported }
        return keyID
    }

    func attestation(of keyID: KeyID, clientDataHash: [UInt8]) async throws -> [UInt8] {
        let hash = Data(clientDataHash)
        return [UInt8](
            try await sortingErrors {
                try await DCAppAttestService.shared.attestKey(keyID.base64, clientDataHash: hash)
            })
    }

    func assertion(by keyID: KeyID, clientDataHash: [UInt8]) async throws -> [UInt8] {
        let hash = Data(clientDataHash)
        return [UInt8](
            try await sortingErrors {
                try await DCAppAttestService.shared.generateAssertion(keyID.base64, clientDataHash: hash)
            })
    }

    private func sortingErrors<Made>(_ call: () async throws -> Made) async throws -> Made {
        do {
            return try await call()
        } catch let error as DCError {
            switch error.code {
            case .invalidKey: throw AttestorFault.keyLost
            case .serverUnavailable: throw AttestorFault.unavailable
            case .featureUnsupported: throw AttestorFault.unsupported
            default: throw error
            }
        }
    }
}

/// The same key, for request proofs.
struct AppAttestKey: HardwareKey {
    let keyID: KeyID

    func assertion(clientDataHash: [UInt8]) async throws -> [UInt8] {
        try await AppAttest().assertion(by: keyID, clientDataHash: clientDataHash)
    }
}
