public import Cryptography
internal import Foundation
internal import RequestProof
public import TrustClient
public import Vocabulary

/// A simulated device on disk: two keys, app, counter and newest challenge.
///
/// | file | content |
/// |---|---|
/// | `hardware-key.pem` | the private hardware key |
/// | `certificate-key.pem` | `keypair_mTLS`, private |
/// | `certificate-public-key.pem` | its public key, for the issuer of the certificate |
/// | `app-id` | the app id in one line, whose form tells the platform; written last, so it marks a complete device |
/// | `counter` | the last counter value used |
/// | `challenge` | gateway, time of arrival and value of Accept-Signature; may be missing |
/// | `certificate.pem` | the client certificate: enrolled, self-signed or supplied |
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

    /// Creates a device with new keys. It replaces nothing, because keys and counter of a device must be unique.
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

    /// Writes a self-signed client certificate with a validity of one year, for gateways that know its key.
    public func signCertificate(_ library: LibraryContext) throws {
        let key = try PrivateKey(pem: SimulatorFile.read(certificateKeyPath), library)
        let certificate = try CertificateIssuer.selfSignedClient(
            commonName: "AttestGate device", lifetime: 365 * 86_400, key: key, library)
        try SimulatorFile.create(certificatePath, certificate.pem())
    }

    public func hardwareKey(_ library: LibraryContext) throws -> PrivateKey {
        try PrivateKey(pem: SimulatorFile.read(hardwareKeyPath), library)
    }

    /// Returns the challenge stored by an earlier run.
    ///
    /// - Parameter authority: The gateway in use. A challenge of another gateway is ignored.
    public func challenge(for authority: [UInt8]) -> ReceivedChallenge? {
        // A missing or damaged file only costs a request for a new challenge.
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
        // Two processes would write the same temporary file.
        try SimulatorFile.locked(challengePath + ".lock") { () throws(SimulatorError) in
            try SimulatorFile.replace(challengePath, bytes)
        }
    }
}

// The files of enrolment, in addition to those of `create`:
//
// | file | content |
// |---|---|
// | `enrolment` | the progress and its service |
// | `attested-key` | the key id of the hardware key that was attested last, because a key is attested once |
// | `next-certificate-key.pem` | the new key, during a rotation |
// | `keymint-1.pem` and further | on Android, the keys of the certificates above the attested key's, below the root |
extension DeviceDirectory {
    private var recordPath: String { path + "/enrolment" }
    private var attestedKeyPath: String { path + "/attested-key" }
    private var nextKeyPath: String { path + "/next-certificate-key.pem" }

    /// Returns a key of the phone's attestation authorities, which is created if it is missing.
    ///
    /// - Parameter position: The position of its certificate, counted from the attested key's, 0.
    func keyMintKey(_ position: Int, _ library: LibraryContext) throws -> PrivateKey {
        let path = path + "/keymint-\(position).pem"
        if SimulatorFile.exists(path) { return try PrivateKey(pem: SimulatorFile.read(path), library) }
        let key = try PrivateKey.generateP256(library)
        try SimulatorFile.create(path, key.pem())
        return key
    }

    /// Prevents other processes from enrolling the same device.
    ///
    /// - Returns: a lock that is held for as long as the object exists.
    public func lockEnrolment() throws(SimulatorError) -> SimulatorLock { try SimulatorLock(recordPath + ".lock") }

    /// Returns the progress, or nil if no enrolment was begun.
    public func enrolmentRecord() throws(SimulatorError) -> EnrolmentRecord? {
        guard SimulatorFile.exists(recordPath) else { return nil }
        guard let record = EnrolmentRecord(decoding: try SimulatorFile.read(recordPath)) else {
            throw SimulatorError("\(recordPath) contains no enrolment")
        }
        return record
    }

    public func keep(_ record: EnrolmentRecord) throws {
        try SimulatorFile.replace(recordPath, record.encoded() + [UInt8(ascii: "\n")])
    }

    // MARK: - The hardware key

    func attestedKey() throws(SimulatorError) -> KeyID? {
        guard SimulatorFile.exists(attestedKeyPath) else { return nil }
        let text = String(decoding: try SimulatorFile.read(attestedKeyPath), as: UTF8.self)
        guard let keyID = KeyID(base64: String(text.dropLast())) else {
            throw SimulatorError("\(attestedKeyPath) contains no key id")
        }
        return keyID
    }

    func noteAttested(_ keyID: KeyID) throws(SimulatorError) {
        try SimulatorFile.replace(attestedKeyPath, Array("\(keyID.base64)\n".utf8))
    }

    /// Creates a new hardware key. The counter is kept, because a new key's counter may begin anywhere.
    func replaceHardwareKey(_ library: LibraryContext) throws -> PrivateKey {
        let key = try PrivateKey.generateP256(library)
        try replaceHardwareKey(by: key)
        return key
    }

    func replaceHardwareKey(by key: PrivateKey) throws { try SimulatorFile.replace(hardwareKeyPath, key.pem()) }

    // MARK: - The certificate and its key

    /// Whether a rotation is unfinished. It must be completed first, because the service may have bound the new key
    /// already.
    public var isRotating: Bool { SimulatorFile.exists(nextKeyPath) }

    /// Creates the next certificate key, unless it exists.
    public func beginRotation(_ library: LibraryContext) throws {
        guard !isRotating else { return }
        try SimulatorFile.create(nextKeyPath, PrivateKey.generateP256(library).pem())
    }

    /// Creates the next certificate key, also in place of one that a lost hardware key may have bound.
    public func replaceKeyToBind(_ library: LibraryContext) throws {
        try SimulatorFile.replace(nextKeyPath, PrivateKey.generateP256(library).pem())
    }

    /// Returns the certificate key to bind.
    public func keyToBind() throws -> SimulatedCertificateKey {
        try SimulatedCertificateKey(isRotating ? nextKeyPath : certificateKeyPath)
    }

    /// Returns the private key to bind, for its attestation.
    func privateKeyToBind(_ library: LibraryContext) throws -> PrivateKey {
        try PrivateKey(pem: SimulatorFile.read(isRotating ? nextKeyPath : certificateKeyPath), library)
    }

    /// Stores the certificate and makes its key the device's key.
    public func keep(_ certificate: EnrolledCertificate, _ library: LibraryContext) throws {
        try keep(chain: certificate.chain, library)
    }

    /// - Parameter chain: The certificates in DER, leaf first.
    func keep(chain: [[UInt8]], _ library: LibraryContext) throws {
        let pem = try chain.flatMap { try Certificate(der: $0.span, library).pem() }
        // In this order, an interrupted change is repeated as long as the next key exists.
        if isRotating {
            let next = try SimulatorFile.read(nextKeyPath)
            try SimulatorFile.replace(certificateKeyPath, next)
            try SimulatorFile.replace(
                certificatePublicKeyPath, PrivateKey(pem: next, library).publicKey.pem())
        }
        try SimulatorFile.replace(certificatePath, pem)
        if isRotating { try SimulatorFile.remove(nextKeyPath) }
    }
}

/// The counter of a simulated hardware key. It never decreases, even after a crash.
///
/// The file contains the last value given out, in decimal. Each value is synced to the file before it is given out.
/// After a crash there may be gaps, as on a phone, but no repetition.
public struct CounterFile: Sendable {
    private let path: String

    /// Creates a counter.
    ///
    /// - Parameter path: The path of the file. `path.lock` is next to it.
    init(path: String) {
        self.path = path
    }

    func create() throws(SimulatorError) {
        try SimulatorFile.create(path, Array("0\n".utf8))
    }

    /// Returns the last value given out, or 0.
    public func last() throws(SimulatorError) -> UInt32 {
        let text = String(decoding: try SimulatorFile.read(path), as: UTF8.self)
        guard text.hasSuffix("\n"), let value = UInt32(text.dropLast()) else {
            throw SimulatorError("\(path) contains no counter")
        }
        return value
    }

    /// Reserves the next values.
    ///
    /// - Parameter count: The number of values, at least 1.
    /// - Returns: the first of them.
    public func take(_ count: UInt32 = 1) throws(SimulatorError) -> UInt32 {
        try SimulatorFile.locked(path + ".lock") { () throws(SimulatorError) in
            let last = try last()
            guard count > 0, UInt32.max - last >= count else {
                throw SimulatorError("\(path): the counter has reached its maximum")
            }
            try SimulatorFile.replace(path, Array("\(last + count)\n".utf8))
            return last + 1
        }
    }
}
