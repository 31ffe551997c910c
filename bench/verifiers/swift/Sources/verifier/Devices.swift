import Crypto
import Foundation
import Synchronization
import X509

/// One hardware key, and the certificate's key that it is bound to.
final class Device: Sendable {
    /// 65 bytes, as that of a registration.
    let certificateKey: Data
    let key: P256.Signing.PublicKey
    /// As proofs name it.
    let keyID: String
    let app: String
    let appHash: Data

    init(certificateKey: Data, publicKey: Data, app: String) throws {
        self.certificateKey = certificateKey
        key = try P256.Signing.PublicKey(x963Representation: publicKey)
        keyID = Data(SHA256.hash(data: publicKey)).base64EncodedString()
        self.app = app
        appHash = Data(SHA256.hash(data: Data(app.utf8)))
    }
}

/// The devices by their certificates.
final class Devices: Sendable {
    private let devices: [Data: Device]
    /// A phone's certificate comes with each of its requests, always in the same words.
    private let known = Mutex<[String: Device]>([:])
    private static let knownLimit = 100_000

    init(_ devices: [Device]) {
        self.devices = Dictionary(uniqueKeysWithValues: devices.map { ($0.certificateKey, $0) })
    }

    /// - Parameter escaped: nginx's `$ssl_client_escaped_cert`, which it has verified.
    func device(ofCertificate escaped: String) throws(Refusal) -> Device {
        if let device = known.withLock({ $0[escaped] }) { return device }
        guard let text = escaped.removingPercentEncoding, let certificate = try? Certificate(pemEncoded: text),
            let key = P256.Signing.PublicKey(certificate.publicKey), let device = devices[key.x963Representation]
        else { throw Refusal("device_unknown", status: 403) }
        known.withLock { known in
            if known.count >= Self.knownLimit { known.removeAll() }
            known[escaped] = device
        }
        return device
    }
}
