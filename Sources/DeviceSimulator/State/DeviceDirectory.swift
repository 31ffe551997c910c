public import Cryptography
internal import RequestProof
public import TrustClient
public import Vocabulary

/// A simulated device on disk: its two keys, its app, its counter, and the newest challenge.
///
/// | file | what |
/// |---|---|
/// | `hardware-key.pem` | the hardware key, private |
/// | `certificate-key.pem` | `keypair_mTLS`, private |
/// | `certificate-public-key.pem` | its public half, for the issuer of the certificate |
/// | `app-id` | the app, in one line; written last, so that what has it is complete |
/// | `counter` | the last counter value used |
/// | `challenge` | of which gateway, since when, and the value of Accept-Signature; may be missing |
/// | `certificate.pem` | the client certificate: of an enrolment, self-signed, or put there by others |
public struct DeviceDirectory: Sendable {
    public let path: String
    public let appID: AppID

    public var hardwareKeyPath: String { path + "/hardware-key.pem" }
    public var certificateKeyPath: String { path + "/certificate-key.pem" }
    public var certificatePublicKeyPath: String { path + "/certificate-public-key.pem" }
    public var certificatePath: String { path + "/certificate.pem" }
    public var counter: CounterFile { CounterFile(path: path + "/counter") }
    private var challengePath: String { path + "/challenge" }

    /// Opens a device made by `create`.
    public init(opening path: String) throws(SimulatorError) {
        guard SimulatorFile.exists(path + "/app-id") else {
            throw SimulatorError("there is no device in \(path): create one with attestgate-device enrol or create")
        }
        let text = String(decoding: try SimulatorFile.read(path + "/app-id"), as: UTF8.self)
        guard text.hasSuffix("\n"), let appID = AppID(String(text.dropLast())) else {
            throw SimulatorError("\(path)/app-id contains no app id")
        }
        self.init(path: path, appID: appID)
    }

    private init(path: String, appID: AppID) {
        self.path = path
        self.appID = appID
    }

    /// Makes a new device with new keys. Replaces nothing: a device's keys and counter exist once.
    public static func create(
        _ path: String, appID: AppID, _ library: LibraryContext
    ) throws -> DeviceDirectory {
        let directory = DeviceDirectory(path: path, appID: appID)
        let names = ["hardware-key.pem", "certificate-key.pem", "certificate-public-key.pem", "app-id", "counter"]
        for name in names where SimulatorFile.exists(path + "/" + name) {
            throw SimulatorError("\(path)/\(name) already exists; nothing was written")
        }
        let hardwareKey = try PrivateKey.generateP256(library)
        let certificateKey = try PrivateKey.generateP256(library)
        try SimulatorFile.makeDirectory(path)
        try SimulatorFile.create(directory.hardwareKeyPath, hardwareKey.pem())
        try SimulatorFile.create(directory.certificateKeyPath, certificateKey.pem())
        try SimulatorFile.create(directory.certificatePublicKeyPath, certificateKey.publicKey.pem())
        try directory.counter.create()
        try SimulatorFile.create(path + "/app-id", Array("\(appID)\n".utf8))
        return directory
    }

    /// Writes a client certificate that the device signs itself, for a year: for gateways that know its key.
    public func signCertificate(_ library: LibraryContext) throws {
        let key = try PrivateKey(pem: SimulatorFile.read(certificateKeyPath), library)
        let certificate = try CertificateIssuer.selfSignedClient(
            commonName: "AttestGate device", lifetime: 365 * 86_400, key: key, library)
        try SimulatorFile.create(certificatePath, certificate.pem())
    }

    public func hardwareKey(_ library: LibraryContext) throws -> PrivateKey {
        try PrivateKey(pem: SimulatorFile.read(hardwareKeyPath), library)
    }

    /// The challenge kept from an earlier run.
    ///
    /// - Parameter authority: of the gateway that is asked now; another's challenge is none.
    public func challenge(for authority: [UInt8]) -> ReceivedChallenge? {
        // A file that is missing or damaged costs one request for a new challenge.
        guard let bytes = try? SimulatorFile.read(challengePath) else { return nil }
        let lines = bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).map(Array.init)
        guard lines.count == 4, lines[3].isEmpty, lines[0] == authority,
            let receivedAt = Int64(String(decoding: lines[1], as: UTF8.self))
        else { return nil }
        let field = lines[2]
        guard let request = try? AcceptSignature(parsing: field.span) else { return nil }
        return ReceivedChallenge(request, receivedAt: receivedAt)
    }

    public func keep(_ challenge: ReceivedChallenge, for authority: [UInt8]) throws(SimulatorError) {
        let line = UInt8(ascii: "\n")
        let time = Array("\(challenge.receivedAt)".utf8)
        let bytes = authority + [line] + time + [line] + challenge.request.fieldValue + [line]
        // Two processes would write one draft.
        try SimulatorFile.locked(challengePath + ".lock") { () throws(SimulatorError) in
            try SimulatorFile.replace(challengePath, bytes)
        }
    }
}
