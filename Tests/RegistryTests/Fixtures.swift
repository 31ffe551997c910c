import Foundation
import Glibc
import RegistryMemory
import Testing
import Vocabulary

@testable package import Registry
@testable package import RegistrySQLite

/// A directory for one test, removed with it.
final class Scratch {
    let path: String

    /// - Parameter inMemory: whether it may lie where nothing waits for a disk, for one that is simulated anyway.
    init(inMemory: Bool = false) throws {
        let memory = URL(filePath: "/dev/shm")
        let isThere = inMemory && access(memory.path, W_OK) == 0
        let url = (isThere ? memory : FileManager.default.temporaryDirectory).appending(
            path: "registry-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
        path = url.path
    }

    deinit {
        try? FileManager.default.removeItem(atPath: path)
    }

    func file(_ name: String = "registry.db") -> String { "\(path)/\(name)" }

    /// What a crash would leave: the file and its log as they are at this moment.
    func copy(to name: String) throws -> String {
        for suffix in ["", "-wal"] where FileManager.default.fileExists(atPath: file() + suffix) {
            try? FileManager.default.removeItem(atPath: file(name) + suffix)
            try FileManager.default.copyItem(atPath: file() + suffix, toPath: file(name) + suffix)
        }
        return file(name)
    }
}

enum Fixture {
    /// A key id that is different for each number and kind.
    static func key(_ number: Int, kind: UInt8) -> KeyID {
        var bytes = [UInt8](repeating: kind, count: 32)
        for index in 0..<8 { bytes[24 + index] = UInt8(truncatingIfNeeded: number >> (8 * index)) }
        guard let key = KeyID(digest: bytes.span) else { fatalError("32 bytes are a key id") }
        return key
    }

    static func hardwareKey(_ number: Int) -> KeyID { key(number, kind: 1) }
    static func bindingKey(_ number: Int) -> KeyID { key(number, kind: 2) }

    static func identity(_ number: Int) -> DeviceIdentity {
        let point = [0x04] + (0..<64).map { UInt8(truncatingIfNeeded: number &+ $0) }
        guard let app = AppID("ABCDE12345.org.example.app\(number % 3)"), let point = PublicPoint(point) else {
            fatalError("well-formed")
        }
        return DeviceIdentity(
            app: app, platform: .iOS, environment: .production, hardwareKey: hardwareKey(number), point: point)
    }
}

extension RegistryStore {
    /// Registers devices 1 to `count`, each bound to the key of its number.
    @discardableResult
    func populate(_ count: Int) throws -> [DeviceID] {
        try (1...count).map {
            try register(Fixture.identity($0), binding: Fixture.bindingKey($0), at: 1_000).device.id
        }
    }

    func entry(
        _ device: Int, _ counter: UInt32, showing shown: ShownExtensions = [], mode: CounterMode = .strict
    ) -> CounterEntry {
        guard let id = DeviceID(Int64(device)) else { fatalError("devices are numbered from 1") }
        return CounterEntry(
            device: id, binding: Fixture.bindingKey(device), counter: counter, epoch: identity.epoch, shown: shown,
            mode: mode)
    }

    func commit(
        _ device: Int, _ counter: UInt32, showing shown: ShownExtensions = [], mode: CounterMode = .strict
    ) -> CounterOutcome {
        commit([entry(device, counter, showing: shown, mode: mode)])[0]
    }
}

func window(_ length: Int) -> CounterMode {
    guard let mode = CounterMode(window: length) else { fatalError("1 to 1024") }
    return mode
}

extension RegistryStore: OperatedStore {
    package func answer(_ command: RegistryCommand, at time: Int64) throws -> RegistryReply {
        try perform(command, at: time).get()
    }

    func endDueBindings(at time: Int64, limit: Int) throws -> [KeyID] {
        try decide(UpkeepRules.endDueBindings(at: time, limit: limit)).ended
    }

    /// - Returns: whether there are more.
    func removeExpired(at time: Int64, limit: Int = 500) throws -> Bool {
        try SingleUseKind.allCases.map { try decide(UpkeepRules.removeUsed($0, at: time, limit: limit)).isMoreLeft }
            .contains(true)
    }

    func removeEndedCertificates(at time: Int64, limit: Int = 500) throws -> Bool {
        try decide(UpkeepRules.removeCertificates(at: time, limit: limit)).isMoreLeft
    }
}
