internal import COpenSSL
internal import Cryptography
public import Vocabulary

/// What a connection knows of its client certificate. Immutable, so a resumed session shares it with the one that
/// verified the certificate, on whatever thread.
public final class ClientIdentity: Sendable {
    /// Who vouches for the key.
    public enum Kind: Sendable {
        /// One of the configured authorities.
        case issued
        /// Nobody: the certificate says only that its holder has the key. Whatever it may do is the registry's to say.
        case selfSigned
    }

    public let kind: Kind
    /// The key id of the certificate's key; nil if the key is not P-256, which that of a self-signed one always is.
    public let keyID: KeyID?
    /// SHA-256 of the certificate's DER encoding: `x5t#S256` (RFC 8705).
    public let thumbprint: [UInt8]
    /// The latest beginning of validity in the chain, in seconds since 1970: clocks are set back too.
    let notBefore: Int64
    /// The earliest end of validity in the chain, in seconds since 1970: the connection lives no longer.
    public let notAfter: Int64
    /// What revocation lists can speak of: the certificates from the leaf up, without the trusted one. Empty if self-signed.
    let chain: [IssuedCertificate]

    init(
        kind: Kind, keyID: KeyID?, thumbprint: [UInt8], notBefore: Int64, notAfter: Int64, chain: [IssuedCertificate]
    ) {
        self.kind = kind
        self.chain = chain
        self.keyID = keyID
        self.thumbprint = thumbprint
        self.notBefore = notBefore
        self.notAfter = notAfter
    }
}

/// Which clients a listener admits, of those whose certificates are good in themselves. What it says of an identity may change
/// while a session or a connection with it lives: each is judged by the latest.
public struct ClientAdmission: Sendable {
    /// Whether clients may have certificates that nobody but themselves has signed.
    let selfSigned: Bool
    /// Nil if revocation lists are not looked at.
    let revocation: RevocationCheck?
    /// The keys clients may have; nil for any.
    let pins: Set<KeyID>?
    /// What is known elsewhere against a client with this key; nil if nobody knows anything.
    private(set) var bar: (@Sendable (KeyID) -> KeyBarReason?)?

    public init(selfSigned: Bool = false, revocation: RevocationCheck? = nil, pins: Set<KeyID>? = nil) {
        self.selfSigned = selfSigned
        self.revocation = revocation
        self.pins = pins
    }

    /// Why a key is barred, whatever its certificates say.
    public enum KeyBarReason: Sendable {
        case deviceRevoked
        case bindingEnded
    }

    /// The same, with a question that is put in every handshake: to whom sessions and chains are offered too.
    ///
    /// - Parameter bar: called on any thread; answers at once, from memory.
    public func asking(_ bar: @escaping @Sendable (KeyID) -> KeyBarReason?) -> ClientAdmission {
        var asking = self
        asking.bar = bar
        return asking
    }

    public struct KeyRejection: Sendable {
        public let kind: ClientCertificateFault.Kind
        /// In words.
        public let reason: String
    }

    /// What speaks against a client whose certificate has been verified, now or for an earlier connection.
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

    /// Why an open connection of that client is to end: it is revoked, or its key is pinned no more. That a list has become
    /// stale ends no connection: it says nothing of this client.
    public func objection(toKeeping identity: ClientIdentity) -> KeyRejection? {
        if let pins, !(identity.keyID.map(pins.contains) ?? false) {
            return KeyRejection(kind: .notPinned, reason: "its key is not pinned")
        }
        guard identity.kind == .issued else { return nil }
        return revocation?.reasonOfRevocation(identity.chain).map { KeyRejection(kind: .revoked, reason: $0) }
    }
}

/// Why a client certificate is refused.
public struct ClientCertificateFault: Error, Equatable, Sendable {
    public enum Kind: CaseIterable, Sendable {
        /// None was presented.
        case missing
        /// It does not chain to one of the configured authorities.
        case unknownAuthority
        /// It, or a certificate above it, is expired or not yet valid.
        case outsideValidity
        /// It cannot be used: purpose, key, signature, extension, depth.
        case unsuitable
        /// It, or a certificate above it, is on its issuer's revocation list.
        case revoked
        /// Nobody can say whether it is revoked: there is no list of its issuer, or none that is fresh.
        case listStale
        /// Its key is none of those the listener is open to.
        case notPinned
        /// Its key is that of a device that was revoked.
        case deviceRevoked
        /// Its key was bound to a device, and is no more.
        case bindingEnded
    }

    public let kind: Kind
    /// What was presented; nil if nothing was.
    public let certificate: PresentedCertificate?
    /// In words.
    public let reason: String

    public static let missing = ClientCertificateFault(kind: .missing, certificate: nil, reason: "none was presented")
}

/// A certificate by all the names it has, for logs. Its holder may have chosen them.
public struct PresentedCertificate: Equatable, Sendable {
    /// In RFC 2253 form, like `issuer`.
    public let subject: String
    public let issuer: String
    /// In upper-case hexadecimal.
    public let serial: String
    /// Nil if the key is not P-256.
    public let keyID: KeyID?

    init(_ certificate: Certificate, _ library: LibraryContext) {
        subject = Self.cut(certificate.subject)
        issuer = Self.cut(certificate.issuer)
        serial = Self.cut(certificate.serial)
        keyID = (try? certificate.publicKey?.keyID(library)) ?? nil
    }

    /// A name may be as long as a handshake message; a line of the log may not.
    private static func cut(_ text: String) -> String { text.utf8.count <= 256 ? text : "\(text.prefix(256))..." }
}

extension ClientCertificateFault.Kind {
    /// Sorts OpenSSL's verification errors into the faults we tell apart.
    init(verifyError: Int32) {
        self =
            switch verifyError {
            case X509_V_ERR_CERT_HAS_EXPIRED, X509_V_ERR_CERT_NOT_YET_VALID: .outsideValidity
            case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT, X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY,
                X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN, X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT,
                X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE, X509_V_ERR_CERT_UNTRUSTED,
                // A foreign authority that carries the name of ours.
                X509_V_ERR_CERT_SIGNATURE_FAILURE:
                .unknownAuthority
            default: .unsuitable
            }
    }

    /// The verification error whose alert OpenSSL is to send (RFC 8446 section 6.2): it derives the alert from the code
    /// left in the store context, and maps several of them to `bad_certificate` or `decrypt_error`.
    var alertingVerifyError: Int32 {
        switch self {
        case .missing: X509_V_ERR_UNSPECIFIED
        case .unknownAuthority: X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY  // unknown_ca
        case .outsideValidity: X509_V_ERR_CERT_HAS_EXPIRED  // certificate_expired
        case .unsuitable: X509_V_ERR_INVALID_PURPOSE  // unsupported_certificate
        // certificate_revoked, whatever the source.
        case .revoked, .deviceRevoked, .bindingEnded: X509_V_ERR_CERT_REVOKED
        // certificate_unknown: those of stale lists would tell the client that its certificate has expired, or its issuer is
        // unknown.
        case .listStale: X509_V_ERR_CRL_PATH_VALIDATION_ERROR
        case .notPinned: X509_V_ERR_CERT_REJECTED  // bad_certificate
        }
    }
}
