internal import Cryptography
internal import Encoding
public import TrustClient
public import Vocabulary

/// The keystore of a simulated Android phone, whose keys a software KeyMint attests.
public struct SimulatedKeystore: SimulatedPlatform {
    private let device: DeviceDirectory
    private let authority: String
    private let phone: AndroidPhone
    private let form: ClientDataForm
    private let attestsCertificateKey: Bool
    private let alteration: EnrolmentAlteration?

    /// Creates a keystore.
    ///
    /// - Parameters:
    ///   - authority: The directory of the simulator's authority.
    ///   - form: In the form `dsr`, one key is hardware key and certificate key.
    ///   - attestsCertificateKey: Whether key bindings state where the certificate key is.
    ///   - alteration: A fault in what the keystore returns. All others have no effect here.
    public init(
        _ device: DeviceDirectory, authority: String, _ phone: AndroidPhone, form: ClientDataForm = .nonceAndTag,
        attestsCertificateKey: Bool = true, alteration: EnrolmentAlteration? = nil
    ) {
        self.device = device
        self.authority = authority
        self.phone = phone
        self.form = form
        self.attestsCertificateKey = attestsCertificateKey
        self.alteration = alteration
    }

    private func keyMint(_ library: LibraryContext) -> SoftwareKeyMint {
        SoftwareKeyMint(device: device, authority: authority, phone: phone, library: library)
    }

    public func makeKey() throws -> (keyID: KeyID, tag: [UInt8]?) {
        let library = try LibraryContext()
        let keyID = try form == .dsr ? device.certificateKeyAsHardwareKey(library) : device.unattestedKey(library)
        return (keyID, try library.randomBytes(32))
    }

    public func attest(_ keyID: KeyID, clientDataHash: [UInt8]) throws -> KeyAttestation {
        let library = try LibraryContext()
        let key = try device.keyToAttest(keyID, library)
        let certificates = try keyMint(library).attestation(of: key, challenge: clientDataHash, alteration)
        try device.noteAttested(keyID)
        return .certificates(certificates)
    }

    public func prove(_ data: KeyBindingClientData, by keyID: KeyID) throws -> KeyBindingProof {
        let library = try LibraryContext()
        let key = try device.hardwareKey(library)
        guard try device.keyID(of: key, library) == keyID else { throw AttestorFault.keyLost }
        let counter = try nextCounter()
        let message = data.message(counter: counter)
        let signature = try P256SigningKey(key, library).sign(digest: library.sha256(of: message.span))
        // A key of the form `dsr` is attested already.
        let isAttested = try device.keyID(of: device.privateKeyToBind(library), library) == keyID
        let chain = isAttested ? nil : try certificateKeyAttestation(data, library)
        return .signature(signature, counter: counter, certificateKey: chain)
    }

    /// Attests a new key, for a new posture of an enrolled device.
    ///
    /// - Returns: The certificates in DER, leaf first.
    public func attestNewKey(nonce: String) throws -> [[UInt8]] {
        let library = try LibraryContext()
        guard let tag = try device.enrolmentRecord()?.chosenTag else {
            throw SimulatorError("the device is not enrolled")
        }
        let challenge = try library.sha256(of: Array((nonce + Base64URL.encode(tag)).utf8).span)
        return try attestNewKey(challenge: challenge.bytes)
    }

    func attestNewKey(challenge: [UInt8]) throws -> [[UInt8]] {
        let library = try LibraryContext()
        return try keyMint(library).attestation(of: try PrivateKey.generateP256(library), challenge: challenge)
    }

    private func nextCounter() throws -> UInt32 {
        switch alteration {
        case .counterZero: return 0
        case .counterReplayed:
            let last = try device.counter.last()
            guard last > 0 else { throw SimulatorError("the device has used no counter yet: enrol it first") }
            return last
        default: return try device.counter.take()
        }
    }

    private func certificateKeyAttestation(
        _ data: KeyBindingClientData, _ library: LibraryContext
    ) throws -> [[UInt8]]? {
        guard attestsCertificateKey else { return nil }
        var challenge = data.certificateKeyChallenge
        if alteration == .certificateKeyChallenge { challenge[0] ^= 1 }
        let key =
            alteration == .certificateKeyAttestation
            ? try PrivateKey.generateP256(library) : try device.privateKeyToBind(library)
        return try keyMint(library).attestation(of: key, challenge: challenge)
    }
}
