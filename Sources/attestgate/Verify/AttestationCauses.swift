internal import Attestation
internal import Cryptography
internal import Encoding
internal import Vocabulary

/// Probable causes of a refused attestation, in plain words: hypotheses that were tested.
struct AttestationCauses {
    let report: AttestationReport
    let evidence: AttestationEvidence
    let data: ClientData
    let appID: String
    let time: Int64
    let hasOtherRoot: Bool
    let library: LibraryContext

    private var found: AttestationFindings { report.findings }

    func all() throws -> [String] {
        var causes: [String] = []
        for fault in report.steps.compactMap(\.outcome.fault) {
            for cause in try self.causes(of: fault) where !causes.contains(cause) { causes.append(cause) }
        }
        return causes
    }

    private func causes(of fault: AttestationFault) throws -> [String] {
        switch fault {
        case .tooLong, .malformed, .unknownFormat, .unknownEntry, .entryMissing, .certificateCount,
            .authenticatorData:
            [MistakenInput(evidence.attestation, expected: .attestation, library).explanation ?? formCause(fault)]
        case .rpIDMismatch: try [appCause()]
        case .counterNotZero: ["The counter of a new key is 0: this authenticator data is not from an attestation."]
        case .environmentMismatch(let environment): [environmentCause(environment)]
        case .extensions: ["The extensions were altered, or come from a system version that this tool does not know."]
        case .keyIDMismatch: try [keyIDCause()]
        case .credentialIDMismatch: ["Authenticator data and certificates belong to two attestations."]
        case .coseKeyKind, .coseKeyMismatch: ["The authenticator data was altered: Apple puts the attested key there."]
        case .nonceExtensionCount, .nonceExtensionForm, .certificateUnreadable, .leafKey:
            ["The leaf is not an App Attest certificate, or was altered."]
        case .nonceMismatch: try [nonceCause()]
        case .platformForm, .platformRefused: ["The leaf names a platform that this tool does not know."]
        case .leafIsAuthority, .intermediateIsNoAuthority:
            ["The certificates are in the wrong order (leaf first, then its issuer), or not from App Attest."]
        case .outsideValidity(let position, let validity): [validityCause(position, validity)]
        case .untrusted: [chainCause()]
        case .validationCategory, .bundleVersion, .systemVersion, .receiptMissing, .receipt, .checkFailed: []
        }
    }

    private func formCause(_ fault: AttestationFault) -> String {
        switch fault {
        case .malformed(.truncated):
            "Cut off: it ends after \(evidence.attestation.count) bytes. A genuine one has 5,000 to 6,000; "
                + "copy it again completely."
        case .malformed(.trailingBytes): "Data follows the attestation: perhaps it was pasted twice."
        case .unknownFormat: "This is another kind of WebAuthn attestation, not App Attest."
        default: "This is not an App Attest attestation, or it was altered in transit."
        }
    }

    private func appCause() throws -> String {
        let hash = found.rpIDHash ?? []
        func isMaker(_ id: String) throws -> Bool {
            let bytes = Array(id.utf8)
            return try library.sha256(of: bytes.span).bytes == hash
        }
        let given = appID.trimmed
        if let maker = try [found.appID, found.receipt?.appID].compactMap({ $0 }).first(where: isMaker) {
            return "Wrong app id: the attestation was made by \(maker), not by \(appID)."
                + Self.difference(maker, given)
        }
        if given != appID, try isMaker(given) { return "Wrong app id: --app-id begins or ends with white space." }
        guard AppID(appID) != nil else {
            return "Wrong app id: \(appID) is not ten characters of team id, a full stop and the bundle id."
        }
        return "Wrong app id: the attestation was made by another app than \(appID), or for another team."
    }

    private static func difference(_ maker: String, _ given: String) -> String {
        if maker.lowercased() == given.lowercased() { return " Capitals count." }
        if maker.hasSuffix("." + given) { return " The team id is missing before the bundle id." }
        let (makerTeam, makerBundle) = (maker.prefix(10), maker.dropFirst(10))
        if makerBundle == given.dropFirst(10) { return " Another team signed it: \(makerTeam)." }
        if makerTeam == given.prefix(10) { return " The team is right, the bundle id is not." }
        return ""
    }

    private func environmentCause(_ environment: KeyEnvironment?) -> String {
        switch environment {
        case .development:
            "Sandbox key in production: the app was signed for development, which uses Apple's sandbox. "
                + "TestFlight and App Store builds create production keys; so does the entitlement "
                + "com.apple.developer.devicecheck.appattest-environment = production."
        case .production: "Production key where a development key is expected: use --environment production."
        case nil: "The authenticator data is not from App Attest, or was altered."
        }
    }

    private func keyIDCause() throws -> String {
        let sent = evidence.keyID.bytes
        let point = found.publicKey ?? []
        guard point.count == 65 else { return "The key id belongs to another key." }
        let compressed = [0x02 | point[64] & 1] + point[1..<33]
        let header = Self.subjectPublicKeyInfoHead + point
        let candidates: [([UInt8], String)] = [
            (header, "the DER SubjectPublicKeyInfo"), (Array(point[1...]), "the coordinates without the leading 04"),
            (compressed, "the compressed point"), (Array(Base64.encode(point).utf8), "the base64 text of the key"),
            (found.keyID?.bytes ?? [], "the key id"),
        ]
        for (bytes, what) in candidates {
            let hash = try library.sha256(of: bytes.span).bytes
            if hash == sent { return "The key id sent is the SHA-256 of \(what), not of the 65-byte point." }
        }
        let right = found.keyID.map { Base64.encode($0.bytes) } ?? ""
        return
            "Key id of another key: this attestation is for \(right). An app that creates a new key must send its new id."
    }

    /// SEQUENCE { SEQUENCE { id-ecPublicKey, prime256v1 }, BIT STRING }, up to the point (RFC 5480 section 2).
    private static let subjectPublicKeyInfoHead: [UInt8] = [
        0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48,
        0xce,
        0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
    ]

    private func nonceCause() throws -> String {
        let authenticatorData = found.authenticatorData ?? []
        func fits(_ hash: [UInt8]) throws -> Bool {
            try library.sha256(of: authenticatorData.span, hash.span).bytes == found.nonce
        }
        let name = "challenge"
        if let variant = try AlternativeHashes(data, name: name, library).all.first(where: { try fits($0.hash) }) {
            return variant.explanation + " With that, the nonce is valid."
        }
        if let passed = found.receipt?.clientDataHash, try fits(passed) {
            return "Another challenge: the app passed the client data hash \(Base64.encode(passed)), "
                + "according to its receipt, not \(Base64.encode(data.hash))."
        }
        return "The app used another challenge or other client data: none of the usual hashes matches. "
            + "Perhaps the challenge belongs to another session, or the attestation to another phone."
    }

    private func validityCause(_ position: CertificatePosition, _ validity: Validity) -> String {
        guard position == .leaf, let notBefore = validity.notBefore, let notAfter = validity.notAfter else {
            return "The \(position.rawValue) certificate is not valid at this time; check the time."
        }
        if time > notAfter {
            return "Expired leaf: attestations are verified on arrival; this certificate expired at "
                + "\(InternetTime(seconds: notAfter)). To verify it for an earlier time, use --at."
        }
        return "The time is before the attestation was made (not before \(InternetTime(seconds: notBefore))): "
            + "check the clock or --at."
    }

    private func chainCause() -> String {
        if hasOtherRoot {
            return "The certificates do not chain to --root: check that it is the root of this simulator."
        }
        return found.leafIssuer?.contains("Apple App Attestation CA") == true
            ? "The certificates name Apple, but Apple did not sign them: forged, or altered in transit."
            : "Issued by \(found.leafIssuer ?? "another authority"), not by Apple: perhaps by a simulator; "
                + "use --root for its root."
    }
}

/// Other client data hashes that an app may have used by mistake. Each has a description of the app's mistake, and of a
/// possible difference in the server.
struct AlternativeHashes {
    struct Variant {
        let hash: [UInt8]
        let explanation: String
    }

    let all: [Variant]

    /// Computes the hashes.
    ///
    /// - Parameter name: `challenge` or `client data`.
    init(_ data: ClientData, name: String, _ library: LibraryContext) throws {
        func sha256(_ bytes: [UInt8]) throws -> [UInt8] { try library.sha256(of: bytes.span).bytes }
        func text(_ text: String) -> [UInt8] { Array(text.utf8) }
        let given = data.given
        let what = data.isHash ? "hash" : name
        var variants: [(bytes: [UInt8], what: String)] = []
        if data.isHash {
            variants = [(given, "the hash")]
        } else {
            variants = [(given, "the \(name)")]
            if given.last == 0x0a {
                variants.append((Array(given.dropLast()), "the \(name) without its final line feed"))
            }
            variants.append((given + [0x0a], "the \(name) followed by a line feed"))
        }
        variants += [
            (text(Base64.encode(given)), "the base64 text of the \(what)"),
            (text(Base64URL.encode(given)), "the base64url text of the \(what)"),
            (text(Hexadecimal.encode(given)), "the hexadecimal text of the \(what)"),
            (text(Hexadecimal.encode(given).uppercased()), "the upper-case hexadecimal text of the \(what)"),
        ]
        if let pasted = String(validating: given, as: UTF8.self) {
            if let decoded = Base64Text(pasted), !decoded.bytes.isEmpty {
                variants.append((decoded.bytes, "the bytes that the base64 of the \(what) decodes to"))
            }
            variants.append((text("\"\(pasted)\""), "the \(what) in quotation marks, as in JSON"))
        }
        var all: [Variant] = []
        for (bytes, description) in variants {
            let once = try sha256(bytes)
            let twice = try sha256(once)
            let hex = try sha256(text(Hexadecimal.encode(once)))
            let base64 = try sha256(text(Base64.encode(once)))
            all += [
                Variant(
                    hash: bytes, explanation: "Not hashed: the app passed \(description) itself, not its SHA-256."),
                Variant(hash: once, explanation: Self.explainOnce(description, name, isHash: data.isHash)),
                Variant(
                    hash: twice, explanation: "Hashed twice: the app passed SHA-256(SHA-256(\(description)))."),
                Variant(
                    hash: hex, explanation: "The app hashed the hexadecimal text of the SHA-256 of \(description)."),
                Variant(
                    hash: base64, explanation: "The app hashed the base64 text of the SHA-256 of \(description)."),
            ]
        }
        // The hash used for verification has failed already.
        self.all = all.filter { $0.hash != data.hash }
    }

    private static func explainOnce(_ description: String, _ name: String, isHash: Bool) -> String {
        guard isHash, description == "the hash" else { return "The app passed the SHA-256 of \(description)." }
        return
            "Hashed twice: the app passed the SHA-256 of this hash. Or the given hash is the \(name) itself."
    }
}

/// The detection of an input of another kind.
struct MistakenInput {
    enum Kind: String {
        case attestation
        case assertion
        case receipt
    }

    /// The explanation. Nil if the bytes are not of another kind.
    let explanation: String?

    init(_ bytes: [UInt8], expected: Kind, _ library: LibraryContext) {
        guard let kind = Self.kind(of: bytes, library) else {
            explanation = Self.otherwise(bytes)
            return
        }
        let article = kind == .receipt ? "a" : "an"
        explanation =
            kind == expected
            ? nil
            : "This is \(article) \(kind.rawValue) instead of \(Self.name(expected)): "
                + "use `attestgate verify \(kind.rawValue)`."
    }

    private static func name(_ kind: Kind) -> String { kind == .receipt ? "a receipt" : "an \(kind.rawValue)" }

    private static func kind(of bytes: [UInt8], _ library: LibraryContext) -> Kind? {
        let span = bytes.span
        if (try? AttestationObject(span)) != nil { return .attestation }
        if (try? Assertion(span)) != nil { return .assertion }
        if (try? SignedMessage(ber: span, library)) != nil { return .receipt }
        return nil
    }

    private static func otherwise(_ bytes: [UInt8]) -> String? {
        switch bytes.count {
        case 0: return "The input is empty."
        case 32: return "This has 32 bytes: perhaps a key id or a hash."
        case 65 where bytes[0] == 0x04: return "This is a public key."
        default: break
        }
        let span = bytes.span
        if (AuthenticatorData.fixedLength...512).contains(bytes.count),
            (try? AuthenticatorData(assertion: span, in: 0..<bytes.count)) != nil
        {
            return "This is only the authenticator data, without the surrounding map."
        }
        return nil
    }
}
