internal import Cryptography
public import TrustClient
public import Vocabulary

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

    /// Returns the device's hardware key. If that key was attested, a new one replaces it.
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

/// The simulator's certification authority, with the structure of Apple's for App Attest: a root and an intermediate on
/// P-384. Trust in its root means trust in software keys, so its names say what it is.
public enum SimulatorAuthority {
    /// The files in the order of writing.
    public static let files = [
        "simulator-root.key", "simulator-root.pem", "simulator-intermediate.key", "simulator-intermediate.pem",
    ]

    private static let lifetime: Int64 = 3_650 * 86_400

    /// Creates root and intermediate. Replaces nothing.
    ///
    /// - Returns: the paths of the files.
    public static func create(in directory: String) throws -> [String] {
        let paths = files.map { directory + "/" + $0 }
        for path in paths where SimulatorFile.exists(path) {
            throw SimulatorError("\(path) already exists; nothing was written")
        }
        let library = try LibraryContext()
        let rootKey = try PrivateKey.generateP384(library)
        let root = try CertificateIssuer.selfSigned(
            .rootAuthority, commonName: "AttestGate Device Simulator Root CA (not Apple)", lifetime: lifetime,
            key: rootKey, library)
        let key = try PrivateKey.generateP384(library)
        let intermediate = try root.issue(
            CertificateTemplate(
                purpose: .authority, commonName: "AttestGate Device Simulator CA 1 (not Apple)", lifetime: lifetime),
            for: key.publicKey)
        let contents = [try rootKey.pem(), try root.certificate.pem(), try key.pem(), try intermediate.pem()]
        try SimulatorFile.makeDirectory(directory)
        for (path, content) in zip(paths, contents) { try SimulatorFile.create(path, content) }
        return paths
    }

    /// Returns the intermediate, which signs attestations.
    static func intermediate(in directory: String, _ library: LibraryContext) throws -> CertificateIssuer {
        guard SimulatorFile.exists(directory + "/" + files[3]) else {
            throw SimulatorError(
                "there is no authority in \(directory): create one with attestgate-device ca init --directory \(directory)"
            )
        }
        let certificate = try Certificate.all(inPEM: SimulatorFile.read(directory + "/" + files[3]), library)
        let key = try PrivateKey(pem: SimulatorFile.read(directory + "/" + files[2]), library)
        guard let certificate = certificate.first else {
            throw SimulatorError("\(directory)/\(files[3]) contains no certificate")
        }
        return try CertificateIssuer(certificate: certificate, key: key, library)
    }
}
