import Attestation
import Cryptography
import DeviceSimulator
import Foundation
import Testing
import TrustClient
import Vocabulary

/// Verifies chains of software phones with the gateway's verifier.
@Suite("A software KeyMint")
struct SoftwareKeyMintTests {
    private let temporary: TemporaryDirectory
    private let library: LibraryContext
    private let hash = [UInt8](repeating: 9, count: 32)
    private let list = AttestationStatusList(serials: [String(EnrolmentAlteration.revokedSerial)])
    private var authority: String { temporary.path + "/authority" }

    init() throws {
        temporary = try TemporaryDirectory()
        library = try LibraryContext()
        _ = try SimulatorAuthority.create(in: temporary.path + "/authority", for: .android)
    }

    private static let phone = AndroidPhone(package: "org.example.app")

    private func device(_ name: String = "phone") throws -> DeviceDirectory {
        try DeviceDirectory.create(temporary.path + "/" + name, appID: Sample.androidAppID, library)
    }

    private func chain(
        of device: DeviceDirectory, _ phone: AndroidPhone = Self.phone, _ alteration: EnrolmentAlteration? = nil
    ) throws -> [[UInt8]] {
        let keystore = SimulatedKeystore(device, authority: authority, phone, alteration: alteration)
        let hash = alteration?.clientDataHash(hash) ?? hash
        guard case .certificates(let chain) = try keystore.attest(keystore.makeKey().keyID, clientDataHash: hash) else {
            throw SimulatorError("no certificates")
        }
        return chain
    }

    private func report(
        _ chain: [[UInt8]], level: KeyDescription.SecurityLevel = .trustedEnvironment, challenge: [UInt8]? = nil
    ) throws -> KeyAttestationReport {
        let pem = try Data(contentsOf: URL(fileURLWithPath: authority + "/simulator-android-root.pem"))
        let app = AndroidApp(
            package: "org.example.app", environment: .simulator,
            signingCertificates: [AndroidPhone.signingCertificate], securityLevel: level, minimumVersion: 1,
            minimumPatchLevel: 202_610)
        let roots = KeyAttestationVerifier.Roots(google: [], simulator: try Certificate.all(inPEM: Array(pem), library))
        return KeyAttestationVerifier(apps: [app], roots: roots, library).report(
            KeyAttestationEvidence(certificates: chain, clientDataHash: challenge ?? hash),
            at: Int64(Date().timeIntervalSince1970),
            list, judgesChainOnly: false)
    }

    @Test(
        "an attestation passes every step, from each security level and with each provisioning",
        arguments: [AndroidPhone.SecurityLevel.trustedEnvironment, .strongBox], AndroidPhone.Provisioning.allCases)
    func accepted(_ level: AndroidPhone.SecurityLevel, _ provisioning: AndroidPhone.Provisioning) throws {
        var phone = Self.phone
        phone.securityLevel = level
        phone.provisioning = provisioning
        let device = try device()
        let sent = try chain(of: device, phone)
        #expect(sent.count == (provisioning == .factory ? 4 : 5))
        let report = try report(sent, level: level == .strongBox ? .strongBox : .trustedEnvironment)
        for entry in report.steps { #expect(entry.outcome == .passed, "\(entry.step)") }
        #expect(report.publicKey == (try device.hardwareKey(library).publicKey.uncompressedPoint))
        // The root is sent as the gateway knows it.
        let root = try String(contentsOfFile: authority + "/simulator-android-root.pem", encoding: .utf8)
        #expect(root.filter { !$0.isWhitespace }.contains(Data(sent[sent.count - 1]).base64EncodedString()))
    }

    @Test("for each step there is one alteration that it refuses", arguments: KeyAttestationStep.allCases)
    func refused(_ step: KeyAttestationStep) throws {
        let name =
            step == .challenge
            ? "client-data" : "attestation-" + step.rawValue.replacing("_", with: "-")
        let alteration = try #require(EnrolmentAlteration(rawValue: name))
        #expect(alteration.endpoint == .initialization)
        #expect(alteration.isForAndroid == (step != .challenge))
        for provisioning in AndroidPhone.Provisioning.allCases {
            var phone = Self.phone
            phone.provisioning = provisioning
            let sent = try chain(of: device("\(provisioning)"), phone, alteration)
            let refused = try report(sent).steps.filter { $0.outcome.fault != nil }.map(\.step)
            #expect(refused == [step], "\(provisioning)")
        }
    }

    @Test("a phone keeps the serial numbers above its keys, which no other phone has except the root's")
    func serials() throws {
        let device = try device()
        let first = try report(chain(of: device)).serials
        let second = try report(chain(of: device)).serials
        let other = try report(chain(of: self.device("other"))).serials
        #expect(first == second && first[0].decimal == "1")
        #expect(Set(first).intersection(other) == [first[0], first[3]])
    }

    @Test("what the phone states is in the key description")
    func stated() throws {
        var phone = Self.phone
        phone.version = 1042
        phone.osVersion = 170_001
        phone.patchLevel = 202_612
        phone.signingCertificate = [UInt8](repeating: 3, count: 32)
        let description = try #require(try report(chain(of: device(), phone)).description)
        #expect(description.softwareEnforced.application?.packages.map(\.version) == [1042])
        #expect(description.softwareEnforced.application?.signingCertificates == [phone.signingCertificate])
        let hardware = description.hardwareEnforced
        #expect(hardware.numbers(.purpose) == [2])
        #expect(hardware.number(.osVersion) == 170_001 && hardware.number(.osPatchLevel) == 202_612)
        #expect(hardware.number(.vendorPatchLevel) == 20_261_201 && hardware.number(.bootPatchLevel) == 20_261_201)
    }

    @Test("the authority of Android phones is made beside that of iPhones, and names itself a simulator")
    func authorities() throws {
        _ = try SimulatorAuthority.create(in: authority)
        #expect(throws: SimulatorError.self) { try SimulatorAuthority.create(in: authority, for: .android) }
        let names = SimulatorAuthority.files(for: .ios) + SimulatorAuthority.files(for: .android)
        #expect(try TemporaryDirectory.names(authority) == names.sorted())
        for name in names { #expect(try TemporaryDirectory.permissions(authority + "/" + name) == 0o600) }
        let pem = try Data(contentsOf: URL(fileURLWithPath: authority + "/simulator-android-root.pem"))
        let root = try Certificate.all(inPEM: Array(pem), library)[0]
        #expect(root.isAuthority && root.isSelfIssued)
        #expect(root.subject.contains("Simulator") && root.subject.contains("not Google"))
    }

    // MARK: - Key bindings

    /// Returns the hardware key and the client data of a key binding, for a service that accepts everything.
    private func clientData(
        _ keystore: SimulatedKeystore, of device: DeviceDirectory
    ) throws -> (KeyID, KeyBindingClientData) {
        let service = try #require(EnrolmentServiceAddress(url: "https://enrol.example.org"))
        let nonce = EnrolmentAnswer(
            status: 200, date: nil, content: Array(#"{"nonce":"EBESExQVFhcYGRobHB0eHyAhIiMkJSYnKCkqKywtLi8"}"#.utf8))
        var exchange = EnrolmentExchange(EnrolmentRecord(service: service), point: try device.keyToBind().point)
        _ = exchange.begin()
        let (made, tag) = try keystore.makeKey()
        _ = exchange.keyMade(made, tag: tag)
        _ = exchange.answered(nonce, now: 0)
        _ = exchange.attested(try keystore.attest(made, clientDataHash: hash))
        _ = exchange.answered(EnrolmentAnswer(status: 204, date: nil, content: []), now: 0)
        guard case .assert(let key, let data) = exchange.answered(nonce, now: 0) else {
            throw SimulatorError("nothing to sign")
        }
        return (key, data)
    }

    private func isSigned(_ data: KeyBindingClientData, _ proof: KeyBindingProof, by device: DeviceDirectory) throws
        -> Bool
    {
        guard case .signature(let signature, let counter, _) = proof else { return false }
        let point = try device.hardwareKey(library).publicKey.uncompressedPoint ?? []
        let message = data.message(counter: counter)
        return try P256VerificationKey(point: point.span, library).verify(
            digest: library.sha256(of: message.span), signature: signature.span)
    }

    @Test("a key binding is signed with the next counter, and the certificate key is attested for it")
    func binding() throws {
        let device = try device()
        let keystore = SimulatedKeystore(device, authority: authority, Self.phone)
        let (key, data) = try clientData(keystore, of: device)
        for expected: UInt32 in 1...3 {
            let proof = try keystore.prove(data, by: key)
            guard case .signature(_, expected, let chain?) = proof else {
                Issue.record("\(proof)")
                return
            }
            #expect(try isSigned(data, proof, by: device))
            #expect(try device.counter.last() == expected)
            let report = try report(chain, challenge: data.certificateKeyChallenge)
            #expect(report.isAccepted)
            #expect(report.publicKey == (try device.keyToBind().point))
        }
        try device.beginRotation(library)
        guard case .signature(_, 4, let chain?) = try keystore.prove(data, by: key) else { return }
        #expect(try report(chain).publicKey == device.keyToBind().point)
    }

    @Test("each alteration of a binding changes what it names, below a genuine signature")
    func alteredBinding() throws {
        let device = try device()
        let (key, data) = try clientData(SimulatedKeystore(device, authority: authority, Self.phone), of: device)
        func prove(_ alteration: EnrolmentAlteration, attests: Bool = true) throws -> (UInt32, KeyAttestationReport?) {
            let keystore = SimulatedKeystore(
                device, authority: authority, Self.phone, attestsCertificateKey: attests, alteration: alteration)
            let proof = try keystore.prove(data, by: key)
            #expect(try isSigned(data, proof, by: device), "\(alteration)")
            guard case .signature(_, let counter, let chain) = proof else { throw SimulatorError("no signature") }
            return (counter, try chain.map { try report($0, challenge: data.certificateKeyChallenge) })
        }
        #expect(throws: SimulatorError.self) { try prove(.counterReplayed) }
        #expect(try prove(.counterZero).0 == 0)
        let own = try device.keyToBind().point
        let (counter, other) = try prove(.certificateKeyAttestation)
        #expect(counter == 1 && other?.isAccepted == true && other?.publicKey != own)
        let (next, challenge) = try prove(.certificateKeyChallenge)
        #expect(next == 2 && challenge?.fault == .challengeMismatch && challenge?.publicKey == own)
        let (replayed, none) = try prove(.counterReplayed, attests: false)
        #expect(replayed == 2 && none == nil)
    }
}
