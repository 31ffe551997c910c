internal import Cryptography
internal import Foundation

/// The KeyMint of a simulated Android phone. It attests keys by certificates below the simulator's root, which a gateway
/// accepts if an app of environment `simulator` names that root.
struct SoftwareKeyMint {
    let device: DeviceDirectory
    /// The directory that `SimulatorAuthority.create` wrote.
    let authority: String
    let phone: AndroidPhone
    let library: LibraryContext

    /// The validity of the certificates between leaf and root: 2025 to 2045, so that it lies in the past of any test.
    private static let validity: ClosedRange<Int64> = 1_735_689_600...2_366_841_600

    /// Returns the certificates of a key in DER, leaf first and root last. Above the leaf they have the same keys, names
    /// and serial numbers each time.
    ///
    /// - Parameters:
    ///   - key: The attested key, on P-256.
    ///   - challenge: The argument of `setAttestationChallenge`.
    func attestation(
        of key: PrivateKey, challenge: [UInt8], _ alteration: EnrolmentAlteration? = nil
    ) throws -> [[UInt8]] {
        let root = try SimulatorAuthority.androidRoot(in: authority, library)
        let length = KeyAttestationChain.length(phone.provisioning)
        let between = try (1..<(length - 1)).map { try device.keyMintKey($0, library) }
        let now = UInt64(max(0, Date().timeIntervalSince1970))
        let description = KeyDescriptionForm(of: phone, challenge: challenge, created: now * 1000)
        var chain = KeyAttestationChain(
            description, provisioning: phone.provisioning, keys: [key] + between + [root.key],
            root: SimulatorAuthority.androidRootName, validity: Self.validity)
        chain.links[0].constraints = [(.keyUsage, "critical,digitalSignature")]
        for position in 1..<(length - 1) {
            chain.links[position].serial = try serial(of: between[position - 1])
            chain.links[position].constraints = [
                (.basicConstraints, "critical,CA:TRUE"), (.keyUsage, "critical,keyCertSign"),
            ]
        }
        try alteration?.change(&chain, phone, library)
        var certificates = try chain.certificates(library)
        if alteration != .attestationRoot { certificates[certificates.count - 1] = try root.certificate.der() }
        if alteration == .attestationCertificates { certificates[1].removeLast() }
        return certificates
    }

    /// Returns a serial number that depends on the key alone.
    private func serial(of key: PrivateKey) throws -> UInt64 {
        let point = key.publicKey.uncompressedPoint ?? []
        let digest = try library.sha256(of: point.span).bytes
        // Positive, and never 0.
        return digest[..<8].reduce(0) { $0 << 8 | UInt64($1) } >> 1 | 1
    }
}

extension EnrolmentAlteration {
    /// A serial number on Google's list, in the documentation's example.
    public static let revokedSerial: UInt64 = 0x2c8c_dddf_d5e0_3bfc

    /// Changes an attestation, so that one step of its verification refuses it.
    fileprivate func change(
        _ chain: inout KeyAttestationChain, _ phone: AndroidPhone, _ library: LibraryContext
    ) throws {
        let other = try PrivateKey.generateP256(library)
        switch self {
        case .attestationRoot: chain.links[chain.links.count - 1].key = other
        case .attestationSignatures: chain.signers[0] = other
        case .attestationProvisioning:
            // A key of the app's own that attests another.
            let inserted = CertificateForm(
                name: [("CN", "Android Keystore Key")], key: other, validity: chain.links[1].validity)
            chain.links.insert(inserted, at: 1)
        case .attestationValidity:
            let end = chain.links[1].validity.upperBound
            chain.links[1].validity = (end - 1)...end
        case .attestationKeyDescription: chain.leafDescriptions = [chain.description.der, chain.description.der]
        case .attestationSecurityLevel:
            chain.description.attestationLevel = AndroidPhone.SecurityLevel.software.rawValue
            chain.description.keyMintLevel = AndroidPhone.SecurityLevel.software.rawValue
        // Imported.
        case .attestationKey: chain.description.setHardware(702, KeyDescriptionForm.number(2))
        case .attestationApplication:
            let signer = [UInt8](repeating: 0, count: 32)
            chain.description.setSoftware(
                709, KeyDescriptionForm.application([(phone.package, phone.version)], [signer]))
        case .attestationBoot: chain.description.setHardware(704, KeyDescriptionForm.rootOfTrust(isLocked: 0))
        case .attestationPatchLevel: chain.description.setHardware(706, KeyDescriptionForm.number(201_001))
        case .attestationRevocation: chain.links[1].serial = Self.revokedSerial
        default: break
        }
    }
}
