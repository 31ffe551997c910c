internal import COpenSSL
internal import Cryptography
public import Vocabulary

/// The identity in a verified client certificate. Immutable, so a resumed session shares it with the session that
/// verified the certificate, on any thread.
public final class ClientIdentity: Sendable {
    /// The kind of a certificate.
    public enum Kind: Sendable {
        /// A certificate of a configured authority.
        case issued
        /// A self-signed certificate, which only proves possession of the key. The registry decides what its holder may
        /// do.
        case selfSigned
    }

    public let kind: Kind
    /// The key id of the certificate's key. Nil if the key is not P-256; that of a self-signed certificate always is.
    public let keyID: KeyID?
    /// SHA-256 of the certificate's DER encoding: `x5t#S256` (RFC 8705).
    public let thumbprint: [UInt8]
    /// The latest beginning of validity in the chain, in seconds since 1970. It matters because clocks may be set back.
    let notBefore: Int64
    /// The earliest end of validity in the chain, in seconds since 1970, which also ends the connection.
    public let notAfter: Int64
    /// The certificate for services. Nil if none receives it, or if it is too large for a field.
    public let fields: CertificateFields?
    /// The certificates that revocation lists may contain: from the leaf up, without the trusted one. Empty if
    /// self-signed.
    let chain: [IssuedCertificate]
    /// The name of the certificate for which it was accepted. Nil where any name is.
    let name: String?

    init(
        kind: Kind, keyID: KeyID?, thumbprint: [UInt8], notBefore: Int64, notAfter: Int64, chain: [IssuedCertificate],
        name: String? = nil, fields: CertificateFields? = nil
    ) {
        self.kind = kind
        self.name = name
        self.chain = chain
        self.keyID = keyID
        self.thumbprint = thumbprint
        self.notBefore = notBefore
        self.notAfter = notAfter
        self.fields = fields
    }
}

/// The rules that decide which clients with valid certificates a listener admits. Their data may change while a session
/// or a connection lives; each check uses the latest.
public struct ClientAdmission: Sendable {
    /// Whether self-signed certificates are accepted.
    let selfSigned: Bool
    /// The keys that issued certificates and their authorities may have.
    public let keys: ClientKeys
    /// The treatment of issued certificates without extended key usage.
    let usage: UsageDemand
    /// Whether a client may present no certificate. One that it presents is judged all the same.
    public let isOptional: Bool
    /// The check of revocation lists. Nil for none.
    let revocation: RevocationCheck?
    /// The accepted keys. Nil for any.
    let pins: Set<KeyID>?
    /// The accepted DNS names, of which a certificate needs one. Nil for any.
    let names: Set<String>?
    /// Returns why a key is barred, if it is. Nil if no such check exists.
    private(set) var bar: (@Sendable (KeyID) -> KeyBarReason?)?

    public init(
        selfSigned: Bool = false, keys: ClientKeys = .standard, usage: UsageDemand = .required,
        isOptional: Bool = false, revocation: RevocationCheck? = nil, pins: Set<KeyID>? = nil,
        names: Set<String>? = nil
    ) {
        self.selfSigned = selfSigned
        self.keys = keys
        self.usage = usage
        self.isOptional = isOptional
        self.revocation = revocation
        self.pins = pins
        self.names = names
    }

    /// What an issued certificate must state of its purpose. Extended key usage without clientAuth is always refused.
    public enum UsageDemand: Sendable {
        /// Extended key usage with clientAuth.
        case required
        /// Extended key usage may be absent, which allows every purpose (RFC 5280 section 4.2.1.12).
        case ifPresent
    }

    /// A reason why a key is barred, whatever its certificate.
    public enum KeyBarReason: Sendable {
        case deviceRevoked
        case bindingEnded
    }

    /// Returns the same rules with a check of keys in every handshake, resumed or not.
    ///
    /// - Parameter bar: called on any thread. Answers at once, from memory.
    public func asking(_ bar: @escaping @Sendable (KeyID) -> KeyBarReason?) -> ClientAdmission {
        var asking = self
        asking.bar = bar
        return asking
    }

    public struct KeyRejection: Sendable {
        public let kind: ClientCertificateFault.Kind
        /// The reason in words.
        public let reason: String

        public init(kind: ClientCertificateFault.Kind, reason: String) {
            self.kind = kind
            self.reason = reason
        }
    }

    /// Returns the objection to a client whose certificate was verified, now or for an earlier connection.
    func objection(to identity: ClientIdentity, at now: Int64) -> KeyRejection? {
        guard identity.notAfter > now else { return KeyRejection(kind: .outsideValidity, reason: "it has expired") }
        guard identity.notBefore <= now else {
            return KeyRejection(kind: .outsideValidity, reason: "it is not valid yet")
        }
        guard selfSigned || identity.kind == .issued else {
            return KeyRejection(kind: .unknownAuthority, reason: "it is self-signed")
        }
        if let objection = objection(toKeeping: identity) ?? barring(identity) { return objection }
        guard identity.kind == .issued else { return nil }
        return revocation?.reasonOfStaleness(identity.chain, at: now).map { KeyRejection(kind: .listStale, reason: $0) }
    }

    private func barring(_ identity: ClientIdentity) -> KeyRejection? {
        // Open connections are not checked here: the code that bars a key ends those.
        switch identity.keyID.flatMap({ bar?($0) }) {
        case .deviceRevoked: KeyRejection(kind: .deviceRevoked, reason: "its device has been revoked")
        case .bindingEnded: KeyRejection(kind: .bindingEnded, reason: "the binding of its key has ended")
        case nil: nil
        }
    }

    /// Returns why an open connection must end: its certificate is revoked, or its key or name is no longer accepted. A stale
    /// list ends no connection, since it is no statement about this client.
    public func objection(toKeeping identity: ClientIdentity) -> KeyRejection? {
        if let pins, !(identity.keyID.map(pins.contains) ?? false) {
            return KeyRejection(kind: .notPinned, reason: "its key is not pinned")
        }
        if let names, !(identity.name.map(names.contains) ?? false) {
            return KeyRejection(kind: .notPinned, reason: "it has none of the accepted names")
        }
        guard identity.kind == .issued else { return nil }
        return revocation?.reasonOfRevocation(identity.chain).map { KeyRejection(kind: .revoked, reason: $0) }
    }
}

/// The reason why a client certificate is refused.
public struct ClientCertificateFault: Error, Equatable, Sendable {
    public enum Kind: CaseIterable, Sendable {
        /// No certificate was presented.
        case missing
        /// It does not chain to a configured authority.
        case unknownAuthority
        /// It, or a certificate above it, is expired or not yet valid.
        case outsideValidity
        /// It is unusable because of its purpose, key, signature, extension or depth.
        case unsuitable
        /// It, or a certificate above it, is on its issuer's revocation list.
        case revoked
        /// Its revocation is unknown: its issuer has no list, or only a stale one.
        case listStale
        /// Its key is not among the accepted keys of the listener, or none of its names is among the accepted ones.
        case notPinned
        /// Its key belongs to a revoked device.
        case deviceRevoked
        /// Its key was bound to a device, and the binding has ended.
        case bindingEnded
    }

    public let kind: Kind
    /// The presented certificate. Nil if there was none.
    public let certificate: PresentedCertificate?
    /// The reason in words.
    public let reason: String

    public static let missing = ClientCertificateFault(kind: .missing, certificate: nil, reason: "none was presented")
}

/// The names of a certificate, for logs. Its holder may have chosen them.
public struct PresentedCertificate: Equatable, Sendable {
    /// The subject in RFC 2253 form, like `issuer`.
    public let subject: String
    public let issuer: String
    /// The serial number in upper-case hexadecimal.
    public let serial: String
    /// The key id. Nil if the key is not P-256.
    public let keyID: KeyID?

    init(_ certificate: Certificate, _ library: LibraryContext) {
        subject = Self.cut(certificate.subject)
        issuer = Self.cut(certificate.issuer)
        serial = Self.cut(certificate.serial)
        keyID = (try? certificate.publicKey?.keyID(library)) ?? nil
    }

    /// Returns the name cut to the length of a log line. A name may be as long as a handshake message.
    private static func cut(_ text: String) -> String { text.utf8.count <= 256 ? text : "\(text.prefix(256))..." }
}

extension ClientCertificateFault.Kind {
    /// Creates the fault for a verification error of OpenSSL.
    init(verifyError: Int32) {
        self =
            switch verifyError {
            case X509_V_ERR_CERT_HAS_EXPIRED, X509_V_ERR_CERT_NOT_YET_VALID: .outsideValidity
            case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT, X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY,
                X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN, X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT,
                X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE, X509_V_ERR_CERT_UNTRUSTED,
                // A foreign authority with the name of a configured one.
                X509_V_ERR_CERT_SIGNATURE_FAILURE:
                .unknownAuthority
            default: .unsuitable
            }
    }

    /// The verification error that OpenSSL translates into an alert (RFC 8446 section 6.2). OpenSSL takes the code left
    /// in the store context, and maps several of them to `bad_certificate` or `decrypt_error`.
    var alertingVerifyError: Int32 {
        switch self {
        case .missing: X509_V_ERR_UNSPECIFIED
        case .unknownAuthority: X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY  // unknown_ca
        case .outsideValidity: X509_V_ERR_CERT_HAS_EXPIRED  // certificate_expired
        case .unsuitable: X509_V_ERR_INVALID_PURPOSE  // unsupported_certificate
        // certificate_revoked, whatever the source.
        case .revoked, .deviceRevoked, .bindingEnded: X509_V_ERR_CERT_REVOKED
        // certificate_unknown: the codes for stale lists would tell the client that its certificate has expired, or
        // that its issuer is unknown.
        case .listStale: X509_V_ERR_CRL_PATH_VALIDATION_ERROR
        case .notPinned: X509_V_ERR_CERT_REJECTED  // bad_certificate
        }
    }
}
