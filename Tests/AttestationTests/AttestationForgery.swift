import Attestation
import COpenSSL
import Cryptography
import Encoding
import Vocabulary

/// An attestation signed by a test authority. It is genuine except for the test's changes before signing.
struct AttestationForgery {
    static let appID = "TEAM123456.com.example.app"
    static let time: Int64 = 1_790_000_000

    let authority: TestAuthority
    let key: PrivateKey
    let intermediate: Certificate

    var rpID = Self.appID
    var flags: UInt8 = 0x40
    var counter: UInt32 = 0
    var aaguid = Array("appattest\0\0\0\0\0\0\0".utf8)
    var credentialID: [UInt8]
    var coseKey: [UInt8]
    var extensions: [UInt8] = []
    var clientDataHash = [UInt8](repeating: 7, count: 32)
    /// Values of the nonce extension. Nil for the right one.
    var nonceExtensions: [[UInt8]]?
    /// Encodes the right nonce in the leaf.
    var writeNonce: ([UInt8]) -> [UInt8] = { DERWriter.nonce($0) }
    var systemExtensions: [[UInt8]] = [Self.system("27.0", platform: "iphoneos")]
    var leafValidity = (Self.time - 86_400)...(Self.time + 172_800)
    var leafIsAuthority: Bool? = false
    var leafKey: PrivateKey
    /// Another authority that signs the leaf.
    var leafIssuer: (TestAuthority, Certificate)?
    var sentIntermediate: Certificate
    var receipt: [UInt8]? = Array("not genuine".utf8)
    /// Entries of the outer map besides the three known ones.
    var unsigned: [(String, [UInt8])] = []
    var format = "apple-appattest"
    var furtherCertificates: [[UInt8]] = []

    init(_ authority: TestAuthority) throws {
        self.authority = authority
        key = try TestAuthority.key("P-256", authority.library)
        leafKey = key
        intermediate = try authority.intermediate()
        sentIntermediate = intermediate
        credentialID = try Self.keyID(of: key, authority)
        coseKey = Self.cose(TestAuthority.point(of: key))
    }

    static func keyID(of key: PrivateKey, _ authority: TestAuthority) throws -> [UInt8] {
        let point = TestAuthority.point(of: key)
        return try authority.library.sha256(of: point.span).bytes
    }

    /// {1: 2, 3: -7, -1: 1, -2: x, -3: y}
    static func cose(_ point: [UInt8], kty: UInt8 = 2, alg: UInt8 = 0x26, crv: UInt8 = 1) -> [UInt8] {
        [0xa5, 0x01, kty, 0x03, alg, 0x20, crv, 0x21] + CBORWriter.bytes(Array(point[1..<33])) + [0x22]
            + CBORWriter.bytes(Array(point[33..<65]))
    }

    static func system(_ version: String?, platform: String?) -> [UInt8] {
        let version = version.map { DERWriter.explicit(1400, DERWriter.octetString(Array($0.utf8))) } ?? []
        let build = DERWriter.explicit(1403, DERWriter.octetString(Array("24A1".utf8)))
        let platform = platform.map { DERWriter.explicit(1026, DERWriter.octetString(Array($0.utf8))) } ?? []
        return DERWriter.sequence(version, DERWriter.explicit(1406, DERWriter.integer([0])), build, platform)
    }

    static func extensions(category: UInt8 = 4, version: String = "1.2.3") -> [UInt8] {
        CBORWriter.map([
            ("apple_bundle_version_01", CBORWriter.text(version)),
            ("apple_validation_category_01", CBORWriter.bytes([category, 0, 0, 0])),
        ])
    }

    var authenticatorData: [UInt8] {
        get throws {
            let rpIDHash = try authority.library.sha256(of: Array(rpID.utf8).span).bytes
            let length = bigEndian(UInt64(credentialID.count), 2)
            return rpIDHash + [flags] + bigEndian(UInt64(counter), 4) + aaguid + length + credentialID
                + coseKey + extensions
        }
    }

    /// Creates the attestation.
    ///
    /// - Parameter signedHash: The hash in the leaf's nonce, if it differs from the client data hash.
    func attestation(signing signedHash: [UInt8]? = nil) throws -> [UInt8] {
        let data = try authenticatorData
        let hash = signedHash ?? clientDataHash
        let nonce = try authority.library.sha256(of: data.span, hash.span).bytes
        let nonces = nonceExtensions ?? [writeNonce(nonce)]
        let request = TestAuthority.Request(
            subject: "leaf", validity: leafValidity, isAuthority: leafIsAuthority,
            extensions: nonces.map { ("1.2.840.113635.100.8.2", $0) }
                + systemExtensions.map { ("1.2.840.113635.100.8.7", $0) })
        let (issuer, issuing) = leafIssuer ?? (authority, intermediate)
        let leaf = try issuer.leaf(request, for: leafKey, by: issuing)
        let certificates =
            [TestAuthority.der(leaf), TestAuthority.der(sentIntermediate)] + furtherCertificates
        let x5c = CBORWriter.head(4, UInt64(certificates.count)) + certificates.flatMap(CBORWriter.bytes)
        let statement = [("x5c", x5c)] + (receipt.map { [("receipt", CBORWriter.bytes($0))] } ?? [])
        return CBORWriter.map(
            [
                ("fmt", CBORWriter.text(format)), ("attStmt", CBORWriter.map(statement)),
                ("authData", CBORWriter.bytes(data)),
            ] + unsigned)
    }

    func evidence(keyID: [UInt8]? = nil, signing hash: [UInt8]? = nil) throws -> AttestationEvidence {
        let bytes = try keyID ?? Self.keyID(of: key, authority)
        guard let id = KeyID(digest: bytes.span) else { throw CryptographyError(doing: "make a key id") }
        return AttestationEvidence(
            attestation: try attestation(signing: hash), clientDataHash: clientDataHash, keyID: id)
    }

    static let app = AttestedApp(id: appID, environment: .production)

    func verifier(_ apps: [AttestedApp] = [app], root: TrustedRoot? = nil) throws -> AttestationVerifier {
        let roots = try AttestationVerifier.Roots(
            apple: root ?? authority.trustedRoot(), receipts: AppleRoots.receipts(authority.library))
        return try AttestationVerifier(apps: apps, roots: roots, authority.library)
    }

    /// Returns the steps that fail, and whether the attestation is accepted.
    func refusals(
        _ evidence: AttestationEvidence, _ apps: [AttestedApp] = [app], at time: Int64 = time, root: TrustedRoot? = nil
    ) throws -> [AttestationFault] {
        let report = try verifier(apps, root: root).report(evidence, at: time)
        let faults = report.steps.compactMap(\.outcome.fault)
        guard (report.verified == nil) == !faults.isEmpty else {
            throw CryptographyError(doing: "agree: verified \(report.verified != nil), refused \(faults)")
        }
        return faults
    }
}

extension DERWriter {
    /// Returns the value of a leaf's extension with the nonce.
    static func nonce(_ nonce: [UInt8]) -> [UInt8] { sequence(explicit(1, octetString(nonce))) }
}

/// Returns the last `count` bytes of a number, the most significant first.
func bigEndian(_ value: UInt64, _ count: Int) -> [UInt8] {
    (0..<count).map { UInt8(truncatingIfNeeded: value >> UInt64(8 * (count - 1 - $0))) }
}
