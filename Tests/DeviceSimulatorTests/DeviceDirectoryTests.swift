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
        #expect(written == SimulatorAuthority.files(for: .ios).map { path + "/" + $0 })
        for path in written { #expect(try TemporaryDirectory.permissions(path) == 0o600) }
        let root = try Certificate.all(inPEM: read(written[1]), library)[0]
        let intermediate = try Certificate.all(inPEM: read(written[3]), library)[0]
        #expect(root.isAuthority && intermediate.isAuthority && intermediate.issuer == root.subject)
        for name in [root.subject, intermediate.subject] {
            #expect(name.contains("Simulator") && name.contains("not Apple"))
        }
        // Each key matches its certificate.
        for index in [0, 2] {
            let key = try PrivateKey(pem: read(written[index]), library)
            let certificate = try Certificate.all(inPEM: read(written[index + 1]), library)[0]
            _ = try CertificateIssuer(certificate: certificate, key: key, library)
        }
        #expect(throws: SimulatorError.self) { try SimulatorAuthority.create(in: path) }
    }

    private func read(_ path: String) throws -> [UInt8] { Array(try Data(contentsOf: URL(fileURLWithPath: path))) }
}

@Suite("The counter of a simulated device")
struct CounterFileTests {
    private let temporary: TemporaryDirectory
    private let device: DeviceDirectory

    init() throws {
        temporary = try TemporaryDirectory()
        device = try DeviceDirectory.create(temporary.path, appID: Sample.appID, LibraryContext())
    }

    private var path: String { temporary.path + "/counter" }

    @Test("the first value is 1, and each further one is one more, also after reopening")
    func counts() throws {
        #expect(try device.counter.last() == 0)
        #expect(try device.counter.take() == 1)
        #expect(try DeviceDirectory(opening: temporary.path).counter.take(10) == 2)
        #expect(try device.counter.take() == 12)
    }

    @Test("a value is in the file before it is used")
    func before() throws {
        let attestor = SimulatedAttestor(device, authority: temporary.path)
        let assertion = try attestor.assertion(
            by: attestor.generateKey(), clientDataHash: [UInt8](repeating: 0, count: 32))
        #expect(!assertion.isEmpty)
        #expect(try String(contentsOfFile: path, encoding: .utf8) == "1\n")
    }

    @Test("a process killed while writing leaves the old value or the new one")
    func killed() throws {
        _ = try device.counter.take(41)
        // A killed process leaves an incomplete temporary file and a released lock.
        try Data("4".utf8).write(to: URL(fileURLWithPath: path + ".new"))
        #expect(try device.counter.take() == 42)
    }

    @Test("concurrent users never get the same value twice")
    func concurrent() async throws {
        let counter = device.counter
        let taken = try await withThrowingTaskGroup(of: [UInt32].self) { group in
            for _ in 0..<4 {
                group.addTask { try (0..<25).map { _ in try counter.take() } }
            }
            return try await group.reduce(into: []) { $0 += $1 }
        }
        #expect(taken.sorted() == Array(1...100))
    }

    @Test(
        "a damaged file or an exhausted counter is an error and does not restart at 1",
        arguments: ["", "x\n", "-1\n", "7", "4294967295\n"])
    func damaged(_ text: String) throws {
        try Data(text.utf8).write(to: URL(fileURLWithPath: path))
        #expect(throws: SimulatorError.self) { try device.counter.take() }
        #expect(try String(contentsOfFile: path, encoding: .utf8) == text)
    }
}

/// A directory that exists during one test.
final class TemporaryDirectory {
    let path: String

    init() throws {
        path = NSTemporaryDirectory() + "/device-simulator-" + UUID().uuidString
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
    }

    deinit {
        try? FileManager.default.removeItem(atPath: path)
    }

    static func permissions(_ path: String) throws -> Int? {
        try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
    }

    static func names(_ path: String) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: path).sorted()
    }
}
