internal import Cryptography
internal import Encoding
internal import Vocabulary

/// The state of one attestation's verification: its certificates, what they say, and the checks.
///
/// A check whose input could not be read is not reached. Therefore the checks may stop at the first failure for a
/// verdict, or all run for an explanation.
struct KeyAttestationExamination {
    let evidence: KeyAttestationEvidence
    let verifier: KeyAttestationVerifier
    let time: Int64
    let list: AttestationStatusList?
    let demandsList: Bool

    /// The app whose rules apply: the one that the leaf names, verified by the later steps.
    private let app: AndroidApp
    /// The certificates, leaf first. Empty if they cannot be read.
    private(set) var chain: [Certificate] = []
    private(set) var description: KeyDescription?
    /// The uncompressed point of the leaf's key on P-256.
    private(set) var point: [UInt8]?
    private var certificateFault: KeyAttestationFault?
    private var descriptionFault: KeyAttestationFault?
    /// The root's certificate, if the chain was sent without it.
    private var root: Certificate?
    private var isRootSent = false
    private var provisioning: Provisioning?

    private typealias Outcome = StepOutcome<KeyAttestationFault>

    /// How the phone got the key that signs attestations.
    private enum Provisioning {
        case factory
        case remote

        /// The number of certificates, with the root, if no key of the app's own is between them.
        var length: Int {
            switch self {
            case .factory: 4
            case .remote: 5
            }
        }
    }

    /// The most certificates of any chain: of a remotely provisioned key with an attest key.
    static let longestChain = 6
    static let longestCertificate = 8192

    init(
        _ evidence: KeyAttestationEvidence, _ verifier: KeyAttestationVerifier, _ time: Int64,
        _ list: AttestationStatusList?, demandsList: Bool
    ) {
        self.evidence = evidence
        self.verifier = verifier
        self.time = time
        self.list = list
        self.demandsList = demandsList
        do throws(KeyAttestationFault) {
            chain = try Self.read(evidence.certificates, verifier.library)
        } catch {
            certificateFault = error
        }
        if let leaf = chain.first {
            do throws(KeyAttestationFault) { description = try Self.describe(leaf) } catch { descriptionFault = error }
            let key = leaf.publicKey
            point = key?.isP256 == true ? key?.uncompressedPoint : nil
        }
        // The list is never empty.
        let package = description?.softwareEnforced.application?.packages.first
        app = verifier.apps.first { package?.isNamed($0.package) == true } ?? verifier.apps[0]
    }

    static func read(
        _ encodings: [[UInt8]], _ library: LibraryContext
    ) throws(KeyAttestationFault) -> [Certificate] {
        guard (2...longestChain).contains(encodings.count) else { throw .certificateCount(encodings.count) }
        var chain: [Certificate] = []
        for (position, encoding) in encodings.enumerated() {
            guard encoding.count <= longestCertificate else { throw .certificateTooLong(position) }
            // OpenSSL also reads BER. A certificate has one encoding here.
            guard let certificate = try? Certificate(der: encoding.span, library),
                certificate.isEncoded(as: encoding.span)
            else { throw .certificateUnreadable(position) }
            chain.append(certificate)
        }
        return chain
    }

    static func describe(_ leaf: Certificate) throws(KeyAttestationFault) -> KeyDescription {
        let values = leaf.extensionValues(KeyDescription.identifier)
        guard values.count == 1 else { throw .keyDescriptionCount(values.count) }
        let value = values[0]
        do throws(DERFault) { return try KeyDescription(value.span) } catch { throw .keyDescriptionForm(error) }
    }

    mutating func outcome(of step: KeyAttestationStep) -> StepOutcome<KeyAttestationFault> {
        do throws(KeyAttestationFault) { return try perform(step) } catch { return .refused(error) }
    }

    private mutating func perform(_ step: KeyAttestationStep) throws(KeyAttestationFault) -> Outcome {
        switch step {
        case .certificates: try checkCertificates()
        case .root: try findRoot()
        case .signatures: try checkSignatures()
        case .provisioning: try checkProvisioning()
        case .validity: try checkValidity()
        case .keyDescription: try checkKeyDescription()
        case .securityLevel: try checkSecurityLevel()
        case .key: try checkKey()
        case .challenge: try checkChallenge()
        case .application: try checkApplication()
        case .boot: try checkBoot()
        case .patchLevel: try checkPatchLevels()
        case .revocation: try checkRevocation()
        }
    }

    /// Returns the result after all steps have passed.
    func result() throws(KeyAttestationFault) -> VerifiedKeyAttestation {
        guard let description, let point else { throw .keyDescriptionCount(0) }
        let keyID: KeyID?
        do throws(CryptographyError) {
            keyID = KeyID(digest: try verifier.library.sha256(of: point.span).span)
        } catch {
            throw .checkFailed(.key, .init(error))
        }
        guard let keyID else { throw .leafKey(algorithm: "unreadable") }
        return VerifiedKeyAttestation(
            keyID: keyID, publicKey: point, app: app, description: description,
            serials: chain.dropFirst().map(AttestationSerial.init))
    }
}

/// Checks of the chain.
extension KeyAttestationExamination {
    /// The certificates with their root, leaf first.
    private var path: [Certificate] { chain + (root.map { [$0] } ?? []) }

    /// The number of certificates, from the leaf, whose keys are the app's own: two with an attest key.
    private var ownCertificates: Int {
        app.allowsAttestKey && chain.count > 1 && !chain[1].extensionValues(KeyDescription.identifier).isEmpty ? 2 : 1
    }

    private func checkCertificates() throws(KeyAttestationFault) -> Outcome {
        if let certificateFault { throw certificateFault }
        for (position, certificate) in chain.enumerated()
        where certificate.hasExtension(below: "1.3.6.1.4.1.11129.2.1.29") {
            throw .virtualMachine(position)
        }
        // An app makes the certificate of its own attest key.
        for position in 1..<chain.count where !AttestationSerial(chain[position]).isStorable {
            throw .serialNumber(position)
        }
        return .passed
    }

    /// Looks for the root by its key: a chain may be sent with another certificate of the same key, or without one.
    private mutating func findRoot() throws(KeyAttestationFault) -> Outcome {
        guard let last = chain.last else { return .notReached }
        let roots = app.environment == .simulator ? verifier.roots.simulator : verifier.roots.google
        do throws(CryptographyError) {
            let key = try last.keyDigest(verifier.library)
            for candidate in roots {
                if try candidate.keyDigest(verifier.library) == key {
                    isRootSent = true
                    return .passed
                }
                if candidate.isNamedIssuer(of: last), let key = candidate.publicKey, last.isSigned(by: key) {
                    root = candidate
                    return .passed
                }
            }
        } catch {
            throw .checkFailed(.root, .init(error))
        }
        throw .rootUnknown
    }

    /// Genuine chains break rules of RFC 5280 about key usages, so each pair is checked, and nothing more. A root that was
    /// sent signs itself: nothing of a chain is then without a signature. The root's key comes first, so that no key is
    /// used before it is trusted: an operation with a key that an attacker chose may be slow.
    private func checkSignatures() throws(KeyAttestationFault) -> Outcome {
        guard isRootSent || root != nil else { return .notReached }
        let path = path
        func issuer(_ position: Int) -> Certificate { path[min(position + 1, path.count - 1)] }
        for position in chain.indices where !issuer(position).isNamedIssuer(of: path[position]) {
            throw .issuerMismatch(position)
        }
        for position in chain.indices.reversed() {
            guard let key = issuer(position).publicKey, path[position].isSigned(by: key) else {
                throw .signatureInvalid(position)
            }
        }
        return .passed
    }

    /// Judges by the certificate below the root, never by the root: chains of both kinds end in the same root.
    private mutating func checkProvisioning() throws(KeyAttestationFault) -> Outcome {
        guard isRootSent || root != nil, path.count > 1 else { return .notReached }
        let path = path
        let intermediate = path[path.count - 2]
        let kind: Provisioning
        if intermediate.isSelfIssued {
            // A root, sent twice: its name has a serial number too.
            throw .provisioningUnknown
        } else if !intermediate.subjectValues("2.5.4.5").isEmpty {
            kind = .factory
        } else if intermediate.subjectValues("2.5.4.3") == [Array("Droid CA2".utf8)],
            intermediate.subjectValues("2.5.4.10") == [Array("Google LLC".utf8)]
        {
            kind = .remote
        } else {
            throw .provisioningUnknown
        }
        let length = kind.length + ownCertificates - 1
        guard path.count == length else { throw .chainLength(path.count, expected: length) }
        provisioning = kind
        return .passed
    }

    /// Genuine factory-provisioned certificates have expired, and phones cannot replace them. A root that was not sent is
    /// trusted as a key: its certificate here may be younger than the phone's.
    private func checkValidity() throws(KeyAttestationFault) -> Outcome {
        guard let provisioning else { return .notReached }
        for position in 1..<chain.count {
            let validity = Validity(chain[position])
            let hasBegun = validity.notBefore.map { $0 <= time } ?? false
            let mayExpire = provisioning == .factory || isRootSent && position == chain.count - 1
            guard hasBegun, mayExpire || validity.includes(time) else { throw .outsideValidity(position, validity) }
        }
        return .passed
    }

    private func checkKeyDescription() throws(KeyAttestationFault) -> Outcome {
        guard !chain.isEmpty else { return .notReached }
        if let descriptionFault { throw descriptionFault }
        for position in 1..<chain.count {
            let values = chain[position].extensionValues(KeyDescription.identifier)
            guard !values.isEmpty else { continue }
            guard position < ownCertificates, let key = try? Self.describe(chain[position]),
                key.hardwareEnforced.numbers(.purpose) == [Purpose.attestKey],
                key.hardwareEnforced.number(.origin) == Origin.generated,
                key.attestationSecurityLevel == description?.attestationSecurityLevel,
                key.keyMintSecurityLevel == description?.keyMintSecurityLevel
            else { throw .keyDescriptionAbove(position) }
        }
        return .passed
    }

    /// The leaf's serial is always 1.
    private func checkRevocation() throws(KeyAttestationFault) -> Outcome {
        guard !chain.isEmpty else { return .notReached }
        guard let list else {
            guard !demandsList else { throw .statusListMissing }
            return .notDemanded(.statusListMissing)
        }
        for (position, certificate) in path.enumerated().dropFirst()
        where list.isRevoked(AttestationSerial(certificate)) {
            throw .revoked(position)
        }
        return .passed
    }
}

/// Checks of what the key description says.
extension KeyAttestationExamination {
    private enum Purpose {
        static let sign: UInt64 = 2
        static let attestKey: UInt64 = 7
    }

    private enum Origin {
        static let generated: UInt64 = 0
    }

    private func checkSecurityLevel() throws(KeyAttestationFault) -> Outcome {
        guard let description, let provisioning else { return .notReached }
        let level = description.attestationSecurityLevel
        guard level == description.keyMintSecurityLevel else { throw .securityLevelsDiffer }
        guard level > .software, level >= app.securityLevel else { throw .securityLevelTooLow(level) }
        // An app chooses the subjects of its own keys.
        let attesting = path.dropLast().dropFirst(ownCertificates)
        switch provisioning {
        case .remote:
            let name = level == .strongBox ? "StrongBox" : "TEE"
            guard attesting.first?.subjectValues("2.5.4.10") == [Array(name.utf8)] else { throw .securityLevelOfChain }
        case .factory:
            let saysStrongBox = attesting.contains { $0.subject.lowercased().contains("strongbox") }
            guard saysStrongBox == (level == .strongBox) else { throw .securityLevelOfChain }
        }
        return .passed
    }

    private func checkKey() throws(KeyAttestationFault) -> Outcome {
        guard let description, let leaf = chain.first else { return .notReached }
        guard point?.count == 65 else { throw .leafKey(algorithm: leaf.keyAlgorithm) }
        let hardware = description.hardwareEnforced
        guard hardware.number(.algorithm) == 3 else { throw .authorization(.algorithm) }
        // Version 1 may state the size alone: it has no other curve of 256 bits.
        let statesSizeAlone = description.attestationVersion == 1 && hardware.values[.ecCurve] == nil
        guard statesSizeAlone ? hardware.number(.keySize) == 256 : hardware.number(.ecCurve) == 1 else {
            throw .authorization(.curve)
        }
        guard hardware.numbers(.purpose).contains(Purpose.sign) else { throw .authorization(.purpose) }
        guard hardware.number(.origin) == Origin.generated else { throw .authorization(.origin) }
        guard hardware.rootOfTrust != nil else { throw .authorization(.rootOfTrust) }
        guard hardware.values[.allApplications] == nil, description.softwareEnforced.values[.allApplications] == nil
        else { throw .authorization(.allApplications) }
        return .passed
    }

    private func checkChallenge() throws(KeyAttestationFault) -> Outcome {
        guard let description else { return .notReached }
        guard ConstantTime.areEqual(description.attestationChallenge.span, evidence.clientDataHash.span) else {
            throw .challengeMismatch
        }
        return .passed
    }

    private func checkApplication() throws(KeyAttestationFault) -> Outcome {
        guard let description else { return .notReached }
        guard let application = description.softwareEnforced.application else { throw .applicationMissing }
        // Several packages share one user id, and any of them could have asked for the key.
        guard application.packages.count == 1 else { throw .packageCount(application.packages.count) }
        guard application.packages[0].isNamed(app.package) else { throw .packageMismatch }
        guard application.signingCertificates.contains(where: app.signingCertificates.contains) else {
            throw .signingCertificateMismatch
        }
        if let minimum = app.minimumVersion, application.packages[0].version < minimum {
            throw .versionTooLow(application.packages[0].version)
        }
        return .passed
    }

    private func checkBoot() throws(KeyAttestationFault) -> Outcome {
        guard let root = description?.hardwareEnforced.rootOfTrust else { return .notReached }
        guard app.boot == .verified else { return .notDemanded(bootFault(root)) }
        if let fault = bootFault(root) { throw fault }
        return .passed
    }

    private func bootFault(_ root: RootOfTrust) -> KeyAttestationFault? {
        if !root.isLocked { return .bootloaderUnlocked }
        return root.bootState == .verified ? nil : .bootState(root.bootState)
    }

    private func checkPatchLevels() throws(KeyAttestationFault) -> Outcome {
        guard let hardware = description?.hardwareEnforced else { return .notReached }
        guard app.minimumPatchLevel != nil else { return .notDemanded(nil) }
        let fault = app.patchLevelFault(
            system: hardware.number(.osPatchLevel), vendor: hardware.number(.vendorPatchLevel),
            boot: hardware.number(.bootPatchLevel))
        if let fault { throw fault }
        return .passed
    }
}
