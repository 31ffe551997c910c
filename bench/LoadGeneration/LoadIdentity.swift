public import Cryptography

/// A client certificate with its key.
public struct LoadIdentity {
    public let chain: [Certificate]
    public let key: PrivateKey

    public init(chain: [Certificate], key: PrivateKey) {
        self.chain = chain
        self.key = key
    }

    /// Identities for these keys, one for each device, issued as the GMS CA issues them.
    ///
    /// - Parameter issuer: a development authority; a real one's key never comes near a load generator.
    public static func issue(
        _ keys: [PrivateKey], from issuer: CertificateIssuer
    ) throws(CryptographyError) -> [LoadIdentity] {
        var identities: [LoadIdentity] = []
        for (index, key) in keys.enumerated() {
            let number = index + 1
            let template = CertificateTemplate(purpose: .client, commonName: "load device \(number)", lifetime: 86_400)
            let certificate = try issuer.issue(template, for: key.publicKey)
            identities.append(LoadIdentity(chain: [certificate], key: key))
        }
        return identities
    }
}
