public import Cryptography
internal import Encoding
internal import Vocabulary

/// A substitute for Apple's attestation service, under the simulator's own root. A gateway accepts its attestations if
/// an app of environment `simulator` names that root.
///
/// Belongs to the thread of its library context.
public final class AttestationMaker {
    /// Lifetime of a leaf in seconds. Apple's leaf certificates live one to three days.
    private static let leafLifetime: Int64 = 3 * 86_400
    /// The AAGUID of production, as in phones. Xcode's simulator attests nothing.
    private static let aaguid = Array("appattest\0\0\0\0\0\0\0".utf8)

    private let issuer: CertificateIssuer
    private let form: AssertionForm
    private let systemVersion: String?
    private let library: LibraryContext

    /// Creates a maker.
    ///
    /// - Parameters:
    ///   - directory: The directory that `SimulatorAuthority.create` wrote.
    ///   - form: The system whose attestations are imitated.
    ///   - systemVersion: The version to state instead of that system's.
    public init(
        authorityIn directory: String, form: AssertionForm = .iOS14, systemVersion: String? = nil,
        _ library: LibraryContext
    ) throws {
        issuer = try SimulatorAuthority.intermediate(in: directory, library)
        self.form = form
        self.systemVersion = systemVersion
        self.library = library
    }

    /// Returns an attestation object: a CBOR map of `fmt`, `attStmt` and `authData`. Its receipt is empty, because only
    /// Apple can sign one.
    ///
    /// - Parameters:
    ///   - key: The hardware key, on P-256.
    ///   - rpID: The text whose SHA-256 is the RP id hash. On a genuine phone it is the app id.
    ///   - clientDataHash: Any bytes, 32 in an enrolment.
    public func attestation(
        of key: PrivateKey, rpID: String, clientDataHash: [UInt8]
    ) throws(CryptographyError) -> [UInt8] {
        let publicKey = key.publicKey
        guard publicKey.isP256, let point = publicKey.uncompressedPoint, let keyID = try publicKey.keyID(library) else {
            throw CryptographyError(doing: "attest: the key is not on P-256")
        }
        let data = try authenticatorData(keyID, point, rpID)
        let nonce = try library.sha256(of: data.span, clientDataHash.span)
        let template = CertificateTemplate(
            purpose: .attestedKey(
                [LeafExtension.nonce(nonce.bytes)] + LeafExtension.system(of: form, version: systemVersion)),
            commonName: keyID.description, lifetime: Self.leafLifetime)
        let chain = [try issuer.issue(template, for: publicKey).der(), try issuer.certificate.der()]
        let statement = CBORWriter.map([
            ("x5c", CBORWriter.array(chain.map(CBORWriter.bytes))), ("receipt", CBORWriter.bytes([])),
        ])
        return CBORWriter.map(
            form.unsignedEntries + [
                ("fmt", CBORWriter.text("apple-appattest")), ("attStmt", statement),
                ("authData", CBORWriter.bytes(data)),
            ])
    }

    /// Returns RP id hash, flags, counter 0, AAGUID, credential id, COSE key and extensions.
    private func authenticatorData(
        _ keyID: KeyID, _ point: [UInt8], _ rpID: String
    ) throws(CryptographyError) -> [UInt8] {
        let rpID = Array(rpID.utf8)
        var data = try library.sha256(of: rpID.span).bytes + [form.flags, 0, 0, 0, 0] + Self.aaguid
        data += [0, 32] + keyID.bytes
        // {1: 2, 3: -7, -1: 1, -2: x, -3: y}: EC2, ES256, P-256 (RFC 9053 section 7.1.1).
        data += [0xa5, 0x01, 0x02, 0x03, 0x26, 0x20, 0x01, 0x21] + CBORWriter.bytes(Array(point[1..<33]))
        data += [0x22] + CBORWriter.bytes(Array(point[33..<65]))
        return data + form.extensions
    }
}

/// Apple's extensions of a leaf certificate.
private enum LeafExtension {
    /// Returns SEQUENCE { [1] EXPLICIT OCTET STRING }.
    static func nonce(_ nonce: [UInt8]) -> CertificateTemplate.OwnExtension {
        CertificateTemplate.OwnExtension(
            identifier: "1.2.840.113635.100.8.2",
            value: DERWriter.sequence(DERWriter.explicit(1, DERWriter.octetString(nonce))))
    }

    /// Returns platform, version and build of the system. Up to iOS 17 no extension stated the platform.
    static func system(of form: AssertionForm, version: String?) -> [CertificateTemplate.OwnExtension] {
        let system = form.system
        guard let version = version ?? system?.version else { return [] }
        var texts: [(UInt32, String)] = [(1400, version)]
        if let system { texts += [(1403, system.build), (1026, system.platform)] }
        let value = DERWriter.sequence(
            texts.flatMap { DERWriter.explicit($0, DERWriter.octetString(Array($1.utf8))) })
        return [CertificateTemplate.OwnExtension(identifier: "1.2.840.113635.100.8.7", value: value)]
    }
}
