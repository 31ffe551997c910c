import Attestation
import COpenSSL
import Cryptography
import DeviceSimulator
import Encoding
import Testing

/// What a key description must say, one rule after the other.
@Suite("Rules of key attestations")
struct KeyAttestationRuleTests {
    typealias Kind = KeyAttestationForgery.Kind
    private typealias Description = KeyDescriptionForgery

    private let library: LibraryContext

    init() throws { library = try LibraryContext() }

    private func fault(
        _ kind: Kind = .factory, _ change: (inout KeyAttestationForgery) throws -> Void
    ) throws -> KeyAttestationFault? {
        var forgery = try KeyAttestationForgery(kind, library)
        try change(&forgery)
        return try forgery.fault()
    }

    // MARK: - Security level

    @Test("levels of attestation and key are equal, and never software", arguments: Kind.allCases)
    func level(_ kind: Kind) throws {
        for (attestation, key) in [(0, 1), (1, 0), (1, 2), (2, 1)] {
            let found = try fault(kind) {
                $0.description.attestationLevel = UInt8(attestation)
                $0.description.keyMintLevel = UInt8(key)
            }
            #expect(found == .securityLevelsDiffer)
        }
        for least in [KeyDescription.SecurityLevel.software, .trustedEnvironment] {
            let found = try fault(kind) {
                $0.description.attestationLevel = 0
                $0.description.keyMintLevel = 0
                $0.app.securityLevel = least
            }
            #expect(found == .securityLevelTooLow(.software))
        }
        #expect(
            try fault(kind) { $0.app.securityLevel = .strongBox } == .securityLevelTooLow(.trustedEnvironment))
    }

    @Test("StrongBox is accepted where the certificates say so, and only there", arguments: Kind.allCases)
    func strongBox(_ kind: Kind) throws {
        func fault(
            isStrongBox: Bool, _ name: [(String, String)], demanded: KeyDescription.SecurityLevel = .trustedEnvironment
        ) throws -> KeyAttestationFault? {
            try self.fault(kind) { forgery in
                forgery.app.securityLevel = demanded
                forgery.links[1].name = name
                if isStrongBox {
                    forgery.description.attestationLevel = 2
                    forgery.description.keyMintLevel = 2
                }
            }
        }
        let names: [String: [(String, String)]] =
            switch kind {
            case .factory:
                [
                    "TEE": [("title", "TEE"), ("serialNumber", "1")],
                    "StrongBox": [("title", "StrongBox"), ("serialNumber", "1")],
                ]
            case .remote: ["TEE": [("CN", "1"), ("O", "TEE")], "StrongBox": [("CN", "1"), ("O", "StrongBox")]]
            }
        let tee = try #require(names["TEE"])
        let strongBox = try #require(names["StrongBox"])
        #expect(try fault(isStrongBox: true, strongBox, demanded: .strongBox) == nil)
        #expect(try fault(isStrongBox: true, strongBox) == nil)
        #expect(try fault(isStrongBox: false, tee) == nil)
        #expect(try fault(isStrongBox: true, tee) == .securityLevelOfChain)
        #expect(try fault(isStrongBox: false, strongBox) == .securityLevelOfChain)
    }

    @Test("a leaf's subject does not say where keys are kept", arguments: Kind.allCases)
    func leafSubject(_ kind: Kind) throws {
        let found = try fault(kind) { forgery in
            forgery.links[0].name = [("O", "StrongBox"), ("title", "StrongBox")]
            forgery.description.attestationLevel = 2
            forgery.description.keyMintLevel = 2
        }
        #expect(found == .securityLevelOfChain)
    }

    @Test("of a remote chain, the certificate above the leaf has one organization")
    func organization() throws {
        for name in [[("CN", "1")], [("O", "TEE"), ("O", "StrongBox")], [("O", "tee")], [("O", "Google LLC")]] {
            #expect(try fault(.remote) { $0.links[1].name = name } == .securityLevelOfChain)
        }
    }

    // MARK: - Key

    @Test("a leaf key on another curve or of another algorithm is refused by its name", arguments: Kind.allCases)
    func leafKey(_ kind: Kind) throws {
        for (curve, name) in [("P-384", "EC secp384r1"), ("P-521", "EC secp521r1"), ("secp256k1", "EC secp256k1")] {
            let key = try TestAuthority.key(curve, library)
            #expect(try fault(kind) { $0.links[0].key = key } == .leafKey(algorithm: name))
        }
        let rsa = try TestAuthority.rsaKey(2048, library)
        #expect(try fault(kind) { $0.links[0].key = rsa } == .leafKey(algorithm: "RSA-2048"))
    }

    @Test("a leaf key that OpenSSL cannot decode is refused by its name", arguments: Kind.allCases)
    func unknownLeafKey(_ kind: Kind) throws {
        for (algorithm, name) in [
            ("2.16.840.1.101.3.4.3.17", "ML-DSA-44"), ("2.16.840.1.101.3.4.3.18", "ML-DSA-65"),
            ("2.16.840.1.101.3.4.3.19", "ML-DSA-87"), ("1.3.9999.1", "1.3.9999.1"),
            // Known algorithms with keys that are none.
            ("1.2.840.10045.2.1", "EC"), ("1.2.840.113549.1.1.1", "RSA"), ("1.3.101.112", "ED25519"),
        ] {
            let key = CertificateForm.UnknownKey(algorithm: algorithm, bytes: .init(repeating: 3, count: 1952))
            #expect(try fault(kind) { $0.links[0].unknownKey = key } == .leafKey(algorithm: name))
        }
    }

    @Test("the hardware states a P-256 key for signatures that it has generated")
    func authorizations() throws {
        func fault(_ tag: UInt32, _ value: [UInt8]?) throws -> KeyAttestationFault? {
            try self.fault { $0.description.setHardware(tag, value) }
        }
        for value in [nil, Description.number(1), Description.number(4), Description.number(.max)] {
            #expect(try fault(2, value) == .authorization(.algorithm))
        }
        for value in [nil, Description.number(0), Description.number(2)] {
            #expect(try fault(10, value) == .authorization(.curve))
        }
        for value in [nil, Description.numbers([]), Description.numbers([3]), Description.numbers([7])] {
            #expect(try fault(1, value) == .authorization(.purpose))
        }
        for value in [nil, Description.number(1), Description.number(2), Description.number(3)] {
            #expect(try fault(702, value) == .authorization(.origin))
        }
        #expect(try fault(704, nil) == .authorization(.rootOfTrust))
        #expect(try fault(600, Description.null) == .authorization(.allApplications))
        #expect(
            try self.fault { $0.description.setSoftware(600, Description.null) } == .authorization(.allApplications))
        #expect(try fault(1, Description.numbers([2])) == nil)
    }

    @Test("what only software states of a key is not believed")
    func softwareEnforced() throws {
        let rules: [(UInt32, KeyAttestationFault.KeyRule)] = [
            (1, .purpose), (2, .algorithm), (10, .curve), (702, .origin), (704, .rootOfTrust),
        ]
        for (tag, rule) in rules {
            let found = try fault { forgery in
                let value = forgery.description.hardware.first { $0.tag == tag }?.value
                forgery.description.setHardware(tag, nil)
                forgery.description.setSoftware(tag, value)
            }
            #expect(found == .authorization(rule))
        }
    }

    @Test("version 1 may state the size of the key instead of its curve")
    func version1() throws {
        func fault(size: UInt64?, version: UInt64) throws -> KeyAttestationFault? {
            try self.fault { forgery in
                forgery.description.attestationVersion = version
                forgery.description.setHardware(10, nil)
                forgery.description.setHardware(3, size.map(Description.number))
            }
        }
        #expect(try fault(size: 256, version: 1) == nil)
        #expect(try fault(size: 384, version: 1) == .authorization(.curve))
        #expect(try fault(size: nil, version: 1) == .authorization(.curve))
        #expect(try fault(size: 256, version: 2) == .authorization(.curve))
    }

    // MARK: - Challenge and app

    @Test("the challenge is the client data hash, byte by byte")
    func challenge() throws {
        let right = [UInt8](repeating: 7, count: 32)
        for other in [[], right + [0], Array(right.dropLast()), right.dropLast() + [8], [8] + right.dropFirst()] {
            #expect(try fault { $0.description.challenge = other } == .challengeMismatch)
            #expect(try fault { $0.clientDataHash = other } == .challengeMismatch)
        }
    }

    @Test("exactly one package asked for the key: the app's")
    func packages() throws {
        func fault(_ packages: [(String, UInt64)]) throws -> KeyAttestationFault? {
            try self.fault {
                $0.description.setSoftware(709, Description.application(packages, [Description.signer]))
            }
        }
        #expect(try fault([]) == .packageCount(0))
        #expect(try fault([(Description.package, 1042), ("org.example.other", 1)]) == .packageCount(2))
        #expect(try fault([(Description.package, 1042), (Description.package, 1042)]) == .packageCount(2))
        for name in ["", "org.example.other", Description.package + "\0", "ORG.example.app", Description.package + "x"]
        {
            #expect(try fault([(name, 1042)]) == .packageMismatch, "\(name)")
        }
        #expect(try self.fault { $0.description.setSoftware(709, nil) } == .applicationMissing)
        let inHardware = try self.fault { forgery in
            let value = forgery.description.software.first { $0.tag == 709 }?.value
            forgery.description.setSoftware(709, nil)
            forgery.description.setHardware(709, value)
        }
        #expect(inHardware == .applicationMissing)
    }

    @Test("a canonically equivalent package name is another package")
    func normalizedPackage() throws {
        let found = try fault { forgery in
            forgery.app.package = "org.example.\u{e9}"
            forgery.description.setSoftware(
                709, Description.application([("org.example.e\u{301}", 1042)], [Description.signer]))
        }
        #expect(found == .packageMismatch)
    }

    @Test("one of the configured certificates signed the app")
    func signers() throws {
        let other = [UInt8](repeating: 1, count: 32)
        func fault(_ stated: [[UInt8]], _ configured: [[UInt8]]) throws -> KeyAttestationFault? {
            try self.fault { forgery in
                forgery.app.signingCertificates = configured
                forgery.description.setSoftware(709, Description.application([(Description.package, 1042)], stated))
            }
        }
        #expect(try fault([Description.signer], [other, Description.signer]) == nil)
        #expect(try fault([other, Description.signer], [Description.signer]) == nil)
        for (stated, configured) in [
            ([other], [Description.signer]), ([], [Description.signer]), ([Description.signer], []),
            ([Array(Description.signer.dropLast())], [Description.signer]), ([[]], [Description.signer]),
        ] {
            #expect(try fault(stated, configured) == .signingCertificateMismatch)
        }
    }

    @Test("the version code is not below the minimum")
    func version() throws {
        for (least, found) in [(1042, nil), (0, nil), (1043, .versionTooLow(1042))] as [(UInt64, KeyAttestationFault?)]
        {
            #expect(try fault { $0.app.minimumVersion = least } == found)
        }
    }

    @Test("of several apps, the rules of the one that asked for the key apply")
    func apps() throws {
        let forgery = try KeyAttestationForgery(.factory, library)
        let other = AndroidApp(package: "org.example.other", signingCertificates: [[1]], securityLevel: .strongBox)
        let roots = KeyAttestationVerifier.Roots(google: [try forgery.rootCertificate])
        for apps in [[other, forgery.app], [forgery.app, other]] {
            let verifier = KeyAttestationVerifier(apps: apps, roots: roots, library)
            #expect(try verifier.fault(of: forgery.evidence(), at: forgery.time, forgery.list) == nil)
            let verified = try verifier.verify(forgery.evidence(), at: forgery.time, forgery.list)
            #expect(verified.app == forgery.app)
        }
    }

    // MARK: - Boot and patch levels

    @Test("the bootloader is locked and the system is the maker's, unless any is admitted")
    func boot() throws {
        for (locked, state, fault) in [
            (0xff, 0, nil), (1, 0, nil), (0, 0, .bootloaderUnlocked), (0xff, 1, .bootState(.selfSigned)),
            (0xff, 2, .bootState(.unverified)), (0xff, 3, .bootState(.failed)), (0, 2, .bootloaderUnlocked),
        ] as [(UInt8, UInt8, KeyAttestationFault?)] {
            let root = Description.rootOfTrust(isLocked: locked, state: state)
            #expect(try self.fault { $0.description.setHardware(704, root) } == fault)
            let found = try self.fault { forgery in
                forgery.description.setHardware(704, root)
                forgery.app.boot = .any
            }
            #expect(found == nil)
        }
    }

    @Test("patch levels are not below the minimum, whether they state a day or not")
    func patchLevels() throws {
        func fault(
            _ system: UInt64?, _ vendor: UInt64?, _ boot: UInt64?, least: UInt64? = 202_601
        ) throws -> KeyAttestationFault? {
            try self.fault { forgery in
                forgery.app.minimumPatchLevel = least
                forgery.description.setHardware(706, system.map(Description.number))
                forgery.description.setHardware(718, vendor.map(Description.number))
                forgery.description.setHardware(719, boot.map(Description.number))
            }
        }
        #expect(try fault(202_601, 202_601, 20_260_101) == nil)
        #expect(try fault(202_601, 20_260_100, nil) == nil)
        #expect(try fault(202_601, nil, nil) == nil)
        #expect(try fault(nil, 20_260_101, 20_260_101) == .patchLevelMissing)
        for old: UInt64 in [202_512, 0, 1, 20_251_231] {
            #expect(try fault(old, nil, nil) == .patchLevelTooOld(.system))
            #expect(try fault(202_601, old, nil) == .patchLevelTooOld(.vendor))
            #expect(try fault(202_601, 202_601, old) == .patchLevelTooOld(.boot))
        }
        #expect(try fault(.max, .max, .max) == nil)
        #expect(try fault(nil, 0, 0, least: nil) == nil)
    }

    // MARK: - Form and reports

    @Test("a malformed key description is refused with the reason")
    func form() throws {
        #expect(try fault { $0.leafDescriptions = [[]] } == .keyDescriptionForm(.truncated))
        #expect(try fault { $0.description.further = [5, 0] } == .keyDescriptionForm(.trailingBytes))
        #expect(try fault { $0.description.setHardware(2, [2, 2, 0, 3]) } == .keyDescriptionForm(.notShortest))
        let unlocked = try fault { $0.description.setHardware(704, Description.rootOfTrust(isLocked: 1)) }
        #expect(unlocked == nil)
    }

    @Test("a report has every step, and judges only the chain if asked to")
    func report() throws {
        var forgery = try KeyAttestationForgery(.remote, library)
        forgery.description.setHardware(702, Description.number(2))
        forgery.app.package = "org.example.other"
        let verifier = try forgery.verifier()
        let evidence = try forgery.evidence()
        let all = verifier.report(evidence, at: forgery.time, forgery.list, judgesChainOnly: false)
        #expect(all.steps.map(\.step) == KeyAttestationStep.allCases)
        #expect(all.steps.compactMap(\.outcome.fault) == [.authorization(.origin), .packageMismatch])
        #expect(!all.isAccepted)
        let chain = verifier.report(evidence, at: forgery.time, forgery.list, judgesChainOnly: true)
        #expect(chain.steps.map(\.step) == KeyAttestationStep.allCases.filter(\.judgesChain))
        #expect(chain.isAccepted && chain.description == all.description)
    }

    @Test("every step of an unreadable chain is refused or not reached")
    func unreadable() throws {
        let forgery = try KeyAttestationForgery(.remote, library)
        let report = try forgery.verifier().report(
            KeyAttestationEvidence(certificates: [[], [1]], clientDataHash: []), at: 0, nil, judgesChainOnly: false)
        #expect(!report.isAccepted && report.fault == .certificateUnreadable(0))
        for entry in report.steps.dropFirst() {
            guard case .notReached = entry.outcome else {
                Issue.record("\(entry.step)")
                continue
            }
        }
    }
}
