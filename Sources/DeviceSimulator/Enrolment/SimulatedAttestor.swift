internal import Cryptography
public import TrustClient
public import Vocabulary

/// `DCAppAttestService` of a simulated device, as an app sees it: it attests each key once, and forgets nothing else.
public struct SimulatedAttestor: Attestor {
    private let device: DeviceDirectory
    private let authority: String
    private let form: AssertionForm
    private let rpID: String
    private let systemVersion: String?

    /// - Parameters:
    ///   - authority: the directory of the simulator's authority.
    ///   - rpID: whose hash stands in attestations and assertions; nil for the device's app id.
    ///   - systemVersion: what attestations state in place of the form's version.
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

    /// The device's hardware key; a new one in its place if that one was attested.
    public func generateKey() throws -> KeyID {
        let library = try LibraryContext()
        let current = try keyID(device.hardwareKey(library), library)
        guard try device.attestedKey() == current else { return current }
        return try keyID(device.replaceHardwareKey(library), library)
    }

    public func attestation(of keyID: KeyID, clientDataHash: [UInt8]) throws -> [UInt8] {
        let library = try LibraryContext()
        let key = try device.hardwareKey(library)
        guard try self.keyID(key, library) == keyID, try device.attestedKey() != keyID else {
            throw AttestorFault.keyLost
        }
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

    private func keyID(_ key: PrivateKey, _ library: LibraryContext) throws -> KeyID {
        guard let keyID = try key.publicKey.keyID(library) else {
            throw SimulatorError("\(device.hardwareKeyPath) contains no key on P-256")
        }
        return keyID
    }
}

/// The key of a simulated device's client certificate.
public struct SimulatedCertificateKey: CertificateKey {
    public let point: [UInt8]
    private let path: String

    /// - Parameter path: of a private key in PEM.
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
