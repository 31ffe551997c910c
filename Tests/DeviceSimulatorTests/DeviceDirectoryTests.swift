import Cryptography
import DeviceSimulator
import Foundation
import Testing

@Suite("A simulated device on disk")
struct DeviceDirectoryTests {
    private let temporary: TemporaryDirectory
    private let library: LibraryContext

    init() throws {
        temporary = try TemporaryDirectory()
        library = try LibraryContext()
    }

    @Test("every file is readable by its owner alone")
    func permissions() throws {
        let path = temporary.path + "/device"
        let device = try DeviceDirectory.create(path, appID: Sample.appID, library)
        _ = try device.counter.take()
        try device.keep(Sample.challenge(), for: Array("a".utf8))
        #expect(try TemporaryDirectory.permissions(path) == 0o700)
        let names = try TemporaryDirectory.names(path)
        #expect(
            names == [
                "app-id", "certificate-key.pem", "certificate-public-key.pem", "challenge",
                "challenge.lock", "counter", "counter.lock",
                "hardware-key.pem",
            ])
        for name in names { #expect(try TemporaryDirectory.permissions(path + "/" + name) == 0o600, "\(name)") }
    }

    @Test("a device has two P-256 keys, and the public file is the certificate key's")
    func keys() throws {
        let device = try DeviceDirectory.create(temporary.path, appID: Sample.appID, library)
        let hardware = try device.hardwareKey(library).publicKey
        let certificate = try PrivateKey(pem: read(device.certificateKeyPath), library).publicKey
        let published = try PublicKey(pem: read(device.certificatePublicKeyPath), library)
        #expect(hardware.isP256 && certificate.isP256)
        #expect(hardware.uncompressedPoint != certificate.uncompressedPoint)
        #expect(published.uncompressedPoint == certificate.uncompressedPoint)
        #expect(try DeviceDirectory(opening: temporary.path).appID == Sample.appID)
    }

    @Test("creating a device never overwrites another")
    func overwriting() throws {
        let device = try DeviceDirectory.create(temporary.path, appID: Sample.appID, library)
        let before = try read(device.hardwareKeyPath)
        #expect(throws: SimulatorError.self) {
            try DeviceDirectory.create(temporary.path, appID: Sample.appID, library)
        }
        #expect(try read(device.hardwareKeyPath) == before)
    }

    @Test("a directory with no device, or half of one, is refused")
    func incomplete() throws {
        #expect(throws: SimulatorError.self) { try DeviceDirectory(opening: temporary.path) }
        try Data("nonsense\n".utf8).write(to: URL(fileURLWithPath: temporary.path + "/app-id"))
        #expect(throws: SimulatorError.self) { try DeviceDirectory(opening: temporary.path) }
    }

    @Test("a challenge is stored per gateway, and a damaged one is ignored")
    func challenges() throws {
        let device = try DeviceDirectory.create(temporary.path, appID: Sample.appID, library)
        let gateway = Array("localhost:8443".utf8)
        #expect(device.challenge(for: gateway) == nil)
        let challenge = try Sample.challenge("xyz", receivedAt: 1_763_690_000)
        try device.keep(challenge, for: gateway)
        #expect(device.challenge(for: gateway) == challenge)
        #expect(device.challenge(for: Array("localhost".utf8)) == nil)
        try Data("localhost:8443\n".utf8).write(to: URL(fileURLWithPath: temporary.path + "/challenge"))
        #expect(device.challenge(for: gateway) == nil)
    }

    @Test("the simulator's authority is created once, with private keys, and names itself a simulator")
    func authority() throws {
        let path = temporary.path + "/ca"
        let written = try SimulatorAuthority.create(in: path)
        #expect(written == SimulatorAuthority.files.map { path + "/" + $0 })
        for path in written { #expect(try TemporaryDirectory.permissions(path) == 0o600) }
        let root = try Certificate.all(inPEM: read(written[1]), library)[0]
        let intermediate = try Certificate.all(inPEM: read(written[3]), library)[0]
        #expect(root.isAuthority && intermediate.isAuthority && intermediate.issuer == root.subject)
        for name in [root.subject, intermediate.subject] {
            #expect(name.contains("Simulator") && name.contains("not Apple"))
        }
        // Each key is its certificate's.
        for index in [0, 2] {
            let key = try PrivateKey(pem: read(written[index]), library)
            let certificate = try Certificate.all(inPEM: read(written[index + 1]), library)[0]
            _ = try CertificateIssuer(certificate: certificate, key: key, library)
        }
        #expect(throws: SimulatorError.self) { try SimulatorAuthority.create(in: path) }
    }

    private func read(_ path: String) throws -> [UInt8] { Array(try Data(contentsOf: URL(fileURLWithPath: path))) }
}
