internal import Attestation
public import Cryptography
internal import Encoding

/// The settings of the wallet profile: the client attestations that a service issues, and its statement for a
/// federation.
public struct WalletSettings: Sendable {
    /// The `sub` of the attestations.
    public var client: String
    /// The private key in PEM, on P-256.
    public var key: [UInt8]
    /// The lifetime of an attestation in seconds.
    public var life: Int64
    /// The key's certificate and those above in PEM, which are sent in `x5c`. Nil if none are.
    public var certificates: [UInt8]?
    /// The signed entity statement as it was read. Nil if none is served.
    public var statement: [UInt8]?

    public init(
        client: String, key: [UInt8], life: Int64, certificates: [UInt8]? = nil, statement: [UInt8]? = nil
    ) {
        self.client = client
        self.key = key
        self.life = life
        self.certificates = certificates
        self.statement = statement
    }

    /// Checks the key.
    ///
    /// - Throws: if it cannot be read, or is not on P-256.
    public func checkKey(_ library: LibraryContext) throws(CryptographyError) {
        _ = try TokenSigner(pem: key, library)
    }

    /// Checks the certificates.
    ///
    /// - Throws: if they cannot be read, or the first is not the key's.
    public func checkCertificates(_ library: LibraryContext) throws(CryptographyError) { _ = try chain(library) }

    /// Returns the certificates in base64 of DER (RFC 7515 section 4.1.6). Empty without any.
    func chain(_ library: LibraryContext) throws(CryptographyError) -> [String] {
        guard let certificates else { return [] }
        let chain = try Certificate.all(inPEM: certificates, library)
        guard let first = chain.first, first.isCertificate(of: try PrivateKey(pem: key, library)) else {
            throw CryptographyError(doing: "use the certificate: it is not of the key")
        }
        return try chain.map { certificate throws(CryptographyError) in Base64.encode(try certificate.der()) }
    }

    /// Checks the statement, and returns whether it has expired.
    ///
    /// - Parameter now: The time in seconds since 1970.
    /// - Throws: if it is none of an entity about itself, or no key in it has signed it.
    public func isStatementExpired(at now: Int64, _ library: LibraryContext) throws(CryptographyError) -> Bool {
        guard let statement else { return false }
        return try !FederationStatement(statement, library).isValid(at: now)
    }
}

/// The issuer of client attestations (draft-ietf-oauth-attestation-based-client-auth-10 section 4): signed statements
/// that a key is of a genuine instance of the client. Belongs to the thread of its library context.
struct ClientAttestationIssuer {
    let signer: TokenSigner
    let life: Int64
    /// Nil if none is served.
    let statement: FederationStatement?
    private let client: String
    private let chain: [String]

    /// - Throws: if the key cannot be read, or is not on P-256, or the certificates are not of it, or the statement is
    ///   none.
    init(_ settings: WalletSettings, _ library: LibraryContext) throws(CryptographyError) {
        signer = try TokenSigner(pem: settings.key, library)
        life = settings.life
        client = settings.client
        chain = try settings.chain(library)
        statement = try settings.statement.map { statement throws(CryptographyError) in
            try FederationStatement(statement, library)
        }
    }

    /// Returns an attestation in compact serialization.
    ///
    /// - Parameters:
    ///   - key: The instance's key.
    ///   - now: The time in seconds since 1970.
    func attestation(for key: PublicJWK, now: Int64) throws(CryptographyError) -> String {
        try signer.sign(
            type: "oauth-client-attestation+jwt", chain: chain,
            JSONWriter.object { claims in
                claims.member("sub", client)
                claims.member("iat", now)
                claims.member("exp", now + life)
                claims.object("cnf") { $0.object("jwk") { key.write(to: &$0) } }
            })
    }
}

/// An entity's signed statement about itself (OpenID Federation section 3), which somebody else has made. It is served
/// until it expires.
struct FederationStatement {
    /// The statement in compact serialization.
    let text: [UInt8]
    /// In seconds since 1970.
    private let expiry: Int64

    /// Reads a statement.
    ///
    /// - Throws: if it is none of an entity about itself, or no key in it has signed it.
    init(_ file: [UInt8], _ library: LibraryContext) throws(CryptographyError) {
        let text = Array(file.prefix { !" \t\r\n".utf8.contains($0) })
        guard file.dropFirst(text.count).allSatisfy(" \t\r\n".utf8.contains), let signed = try? CompactJWS(text),
            signed.header["typ"]?.spells("entity-statement+jwt") == true
        else {
            throw CryptographyError(doing: "read the entity statement: it is not a JWT with typ entity-statement+jwt")
        }
        guard let issuer = signed.payload["iss"]?.text, issuer == signed.payload["sub"]?.text,
            let expiry = signed.payload["exp"]?.integer, NumericDate.range.contains(expiry),
            let members = signed.payload["jwks"]?.object
        else { throw CryptographyError(doing: "read the entity statement: it needs iss, an equal sub, exp and jwks") }
        let keys: JWKSet
        do throws(JWKSetFault) { keys = try JWKSet(members, library) } catch {
            throw CryptographyError(doing: "read the entity statement: jwks: \(error.reason)")
        }
        guard (try? keys.verify(signed)) != nil else {
            throw CryptographyError(doing: "read the entity statement: no key in its jwks has signed it")
        }
        self.text = text
        self.expiry = expiry
    }

    func isValid(at now: Int64) -> Bool { now < expiry }
}
