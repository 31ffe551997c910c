public import Cryptography
internal import Foundation
public import Vocabulary

/// A certificate for a bound key, as the client gets it.
public struct IssuedClientCertificate: Equatable, Sendable {
    /// Base64 of DER, the leaf first, then the GMS CA.
    public let chain: [String]
    /// When the first of the chain expires, in seconds since 1970.
    public let expiresAt: Int64
    /// The leaf's serial number in upper-case hexadecimal.
    public let serial: String
}

/// How the GMS CA issues certificates for bound keys: ECDSA on P-256, for TLS clients, `urn:attestgate:device:<key id>` as
/// the one name, a random serial of 128 bits, and no word about a person.
///
/// Holds the CA's key; belongs to the thread of its library context.
public struct ClientCertificateIssue {
    /// The same in every certificate: who it is for is the alternative name's to say.
    static let commonName = "AttestGate device"
    /// What a lifetime may be, in seconds: a minute to a year.
    public static let lifetimes: ClosedRange<Int64> = 60...31_536_000
    /// Thirty days.
    public static let defaultLifetime: Int64 = 2_592_000

    private let issuer: CertificateIssuer
    private let lifetime: Int64
    private let library: LibraryContext

    /// - Parameter lifetime: in seconds, one of `lifetimes`. Certificates end with the CA's own at the latest.
    public init(
        _ issuer: CertificateIssuer, lifetime: Int64 = defaultLifetime, _ library: LibraryContext
    ) throws(CryptographyError) {
        guard Self.lifetimes.contains(lifetime) else {
            throw CryptographyError(doing: "issue certificates for \(lifetime) seconds")
        }
        self.issuer = issuer
        self.lifetime = lifetime
        self.library = library
    }

    /// Chooses serial number and end of a certificate, before its key is bound: the registry writes both down with the
    /// binding, so that every certificate there can be is known to it, and can be revoked.
    ///
    /// - Parameter now: in seconds since 1970.
    public func plan(now: Int64) throws(CryptographyError) -> PlannedClientCertificate {
        guard let end = issuer.certificate.notAfter, end > now else {
            throw CryptographyError(doing: "issue certificates: the CA's own has expired")
        }
        return PlannedClientCertificate(serial: try library.randomSerial(), notAfter: min(now + lifetime, end))
    }

    /// Issues a certificate. To be called when the binding is durable.
    ///
    /// - Parameters:
    ///   - planned: what the registry has written down.
    ///   - point: the bound key: 65 bytes, uncompressed.
    ///   - device: the key id of the device's hardware key.
    public func issue(
        _ planned: PlannedClientCertificate, forKey point: [UInt8], device: KeyID
    ) throws(CryptographyError) -> IssuedClientCertificate {
        let template = CertificateTemplate(
            purpose: .device(device), commonName: Self.commonName, end: .at(planned.notAfter), serial: planned.serial)
        let leaf = try issuer.issue(template, for: PublicKey(point: point.span, library))
        let chain = [try leaf.der(), try issuer.certificate.der()]
        return IssuedClientCertificate(
            chain: chain.map { Data($0).base64EncodedString() }, expiresAt: planned.notAfter, serial: leaf.serial)
    }
}

/// A certificate that is going to be issued.
public struct PlannedClientCertificate: Equatable, Sendable {
    public let serial: CertificateSerial
    /// In seconds since 1970; no later than the CA's own end.
    public let notAfter: Int64
}
