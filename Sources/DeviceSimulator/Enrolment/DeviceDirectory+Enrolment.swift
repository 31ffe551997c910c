public import Cryptography
internal import Foundation
public import TrustClient
internal import Vocabulary

// What enrolment leaves in a device's directory, beside what `create` made:
//
// | file | what |
// |---|---|
// | `enrolment` | how far it has come, and with which service |
// | `attested-key` | the key id of the hardware key that was attested last: a key is attested once |
// | `next-certificate-key.pem` | while a rotation is under way: the key that is to come |
extension DeviceDirectory {
    private var recordPath: String { path + "/enrolment" }
    private var attestedKeyPath: String { path + "/attested-key" }
    private var nextKeyPath: String { path + "/next-certificate-key.pem" }

    /// Keeps other processes from enrolling the same device. - Returns: what keeps them, for as long as it lives.
    public func lockEnrolment() throws(SimulatorError) -> SimulatorLock { try SimulatorLock(recordPath + ".lock") }

    /// Nil if none was begun.
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

    /// Keeps the counter: a new key's counter may begin anywhere.
    func replaceHardwareKey(_ library: LibraryContext) throws -> PrivateKey {
        let key = try PrivateKey.generateP256(library)
        try SimulatorFile.replace(hardwareKeyPath, key.pem())
        return key
    }

    // MARK: - The certificate and its key

    /// Whether a rotation was begun and not finished: then nothing but this rotation can follow, for the service may have
    /// bound the new key already.
    public var isRotating: Bool { SimulatorFile.exists(nextKeyPath) }

    /// Makes the key that is to come, unless there is one.
    public func beginRotation(_ library: LibraryContext) throws {
        guard !isRotating else { return }
        try SimulatorFile.create(nextKeyPath, PrivateKey.generateP256(library).pem())
    }

    /// The key that is to be bound.
    public func keyToBind() throws -> SimulatedCertificateKey {
        try SimulatedCertificateKey(isRotating ? nextKeyPath : certificateKeyPath)
    }

    /// Stores the certificate, and makes the key it is for the device's.
    public func keep(_ certificate: EnrolledCertificate, _ library: LibraryContext) throws {
        let pem = try certificate.chain.flatMap { try Certificate(der: $0.span, library).pem() }
        // In this order: what is broken off is done again, as long as the next key is there.
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
