internal import Attestation
internal import Cryptography
internal import Gateway
internal import GatewayConfiguration

extension DeviceTokenSettings {
    /// Reads the issuer's keys, and reports their faults now.
    ///
    /// - Parameter keepsClaims: Whether a decision point may be sent the claims.
    init(_ tokens: DeviceTokensConfiguration, keepsClaims: Bool) throws(StartupError) {
        let binding: DeviceTokenBinding =
            switch tokens.binding {
            case .x5t: .x5t
            case .sub: .sub
            }
        let demands = DeviceTokenDemands(
            issuer: tokens.issuer, binding: binding, maximumAge: tokens.maximumAge.components.seconds)
        let path = tokens.keysPath
        do {
            let keys = try FileContents.read(path)
            _ = try DeviceTokenVerifier(demands, keys: keys, LibraryContext())
            self.init(demands, keys: keys, isForwarded: tokens.header == .forward, keepsClaims: keepsClaims)
        } catch let error as FileContents.Failure {
            throw StartupError(in: "device_tokens", error, of: .file(path))
        } catch {
            throw StartupError("device_tokens: \(path): \(error)", of: .file(path))
        }
    }
}

extension ClientAttestationSettings {
    /// Reads the attester's keys, and reports their faults now.
    init(_ attestations: ClientAttestationsConfiguration, _ proof: ProofConfiguration) throws(StartupError) {
        let demands = ClientAttestationDemands(
            resource: attestations.resource.text, clients: attestations.clients.map { Set($0) },
            maximumAge: attestations.maximumAge.components.seconds, proofAge: proof.maxAge.components.seconds)
        let path = attestations.keysPath
        do {
            let keys = try FileContents.read(path)
            _ = try ClientAttestationVerifier(demands, keys: keys, LibraryContext())
            self.init(demands, keys: keys, challengeLife: proof.challengeLife.components.seconds)
        } catch let error as FileContents.Failure {
            throw StartupError(in: "client_attestations", error, of: .file(path))
        } catch {
            throw StartupError("client_attestations: \(path): \(error)", of: .file(path))
        }
    }
}
