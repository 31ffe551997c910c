internal import Cryptography
public import TrustClient
public import Vocabulary

/// The attestation service of a simulated phone, on either platform.
public protocol SimulatedPlatform {
    /// Returns a hardware key that was not attested, and on Android the tag that its app has chosen.
    func makeKey() throws -> (keyID: KeyID, tag: [UInt8]?)
    /// Attests a key. Each key is attested once.
    ///
    /// - Parameter clientDataHash: On Android the challenge.
    func attest(_ keyID: KeyID, clientDataHash: [UInt8]) throws -> KeyAttestation
    /// Signs for the certificate key to bind, with the next counter.
    func prove(_ data: KeyBindingClientData, by keyID: KeyID) throws -> KeyBindingProof
}

/// The `DCAppAttestService` of a simulated device. It attests each key once.
public struct SimulatedAttestor: Attestor {
    private let device: DeviceDirectory
    private let authority: String
    private let form: AssertionForm
    private let rpID: String
    private let systemVersion: String?

    /// Creates an attestor.
    ///
    /// - Parameters:
    ///   - authority: The directory of the simulator's authority.
    ///   - rpID: The text whose hash is in attestations and assertions. Nil for the device's app id.
    ///   - systemVersion: The version that attestations state instead of the form's.
    public init(
        _ device: DeviceDirectory, authority: String, form: AssertionForm = .iOS14, rpID: String? = nil,
        systemVersion: String? = nil
    ) {
        self.device = device
        self.authority = authority
        self.form = form
        self.rpID = rpID ?? device.appID.description
        self.systemVersion = systemVersion
    }

    public func generateKey() throws -> KeyID { try device.unattestedKey(LibraryContext()) }

    public func attestation(of keyID: KeyID, clientDataHash: [UInt8]) throws -> [UInt8] {
        let library = try LibraryContext()
        let key = try device.keyToAttest(keyID, library)
        let maker = try AttestationMaker(authorityIn: authority, form: form, systemVersion: systemVersion, library)
        let attestation = try maker.attestation(of: key, rpID: rpID, clientDataHash: clientDataHash)
        try device.noteAttested(keyID)
        return attestation
    }

    public func assertion(by keyID: KeyID, clientDataHash: [UInt8]) throws -> [UInt8] {
        let library = try LibraryContext()
        let maker = try AssertionMaker(device.hardwareKey(library), rpID: rpID, form: form, library)
        guard maker.keyID == keyID else { throw AttestorFault.keyLost }
        return try maker.assertion(counter: device.counter.take(), clientDataHash: clientDataHash)
    }
}

extension SimulatedAttestor: SimulatedPlatform {
    public func makeKey() throws -> (keyID: KeyID, tag: [UInt8]?) { (try generateKey(), nil) }

    public func attest(_ keyID: KeyID, clientDataHash: [UInt8]) throws -> KeyAttestation {
        .appAttest(try attestation(of: keyID, clientDataHash: clientDataHash))
    }

    public func prove(_ data: KeyBindingClientData, by keyID: KeyID) throws -> KeyBindingProof {
        .assertion(try assertion(by: keyID, clientDataHash: data.hash))
    }
}

extension DeviceDirectory {
    /// Returns the hardware key. If it was attested, a new one replaces it.
    func unattestedKey(_ library: LibraryContext) throws -> KeyID {
        let current = try keyID(of: hardwareKey(library), library)
        guard try attestedKey() == current else { return current }
        return try keyID(of: replaceHardwareKey(library), library)
    }

    /// Makes the certificate key to bind the hardware key too.
    ///
    /// - Throws: if that key was attested, because a key is attested once.
    func certificateKeyAsHardwareKey(_ library: LibraryContext) throws -> KeyID {
        let key = try privateKeyToBind(library)
        let keyID = try keyID(of: key, library)
        guard try attestedKey() != keyID else {
            throw SimulatorError("the certificate key was attested before: replace it with --rotate, or the device")
        }
        try replaceHardwareKey(by: key)
        return keyID
    }

    /// Returns the hardware key.
    ///
    /// - Throws: `keyLost` if the device has another key, or this one was attested.
    func keyToAttest(_ keyID: KeyID, _ library: LibraryContext) throws -> PrivateKey {
        let key = try hardwareKey(library)
        guard try self.keyID(of: key, library) == keyID, try attestedKey() != keyID else {
            throw AttestorFault.keyLost
        }
        return key
    }

    func keyID(of key: PrivateKey, _ library: LibraryContext) throws -> KeyID {
        guard let keyID = try key.publicKey.keyID(library) else {
            throw SimulatorError("\(hardwareKeyPath) contains no key on P-256")
        }
        return keyID
    }
}

/// The key of a simulated device's client certificate.
public struct SimulatedCertificateKey: CertificateKey {
    public let point: [UInt8]
    private let path: String

    /// Reads a key.
    ///
    /// - Parameter path: The path of a private key in PEM.
    init(_ path: String) throws {
        let library = try LibraryContext()
        point = try P256SigningKey(PrivateKey(pem: SimulatorFile.read(path), library), library).point
        self.path = path
    }

    public func signature(over message: [UInt8]) throws -> [UInt8] {
        let library = try LibraryContext()
        let key = try P256SigningKey(PrivateKey(pem: SimulatorFile.read(path), library), library)
        return try key.sign(digest: library.sha256(of: message.span))
    }
}
