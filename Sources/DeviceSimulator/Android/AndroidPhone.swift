/// What a simulated Android phone states of itself and of the app, in every attestation.
public struct AndroidPhone: Equatable, Sendable {
    /// Where the keys are, by KeyMint's numbers.
    public enum SecurityLevel: UInt8, Sendable, CaseIterable {
        case software
        case trustedEnvironment
        case strongBox
    }

    /// How the phone got the key that signs attestations.
    public enum Provisioning: String, Sendable, CaseIterable {
        /// In the factory: four certificates, with the root.
        case factory
        /// From Google's server: five certificates.
        case remote
    }

    public var package: String
    /// The version code of the app.
    public var version: UInt64 = 1
    /// SHA-256 of the certificate that signed the app.
    public var signingCertificate: [UInt8] = Self.signingCertificate
    public var securityLevel = SecurityLevel.trustedEnvironment
    public var provisioning = Provisioning.factory
    /// As KeyMint states it: 160000 is Android 16.
    public var osVersion: UInt64 = 160_000
    /// Year and month of the system's patch level, as 202610. Vendor and boot have the first day of that month.
    public var patchLevel: UInt64 = 202_610

    /// The default certificate: no app is signed by one with this hash.
    public static let signingCertificate = [UInt8](repeating: 0xa5, count: 32)

    public init(package: String) { self.package = package }
}
