public import Cryptography
internal import Encoding
internal import Foundation
public import Vocabulary

/// Many devices of one app in one directory, for load tests. Two files have a line of JSON for each device, and a third
/// has one counter.
///
/// | file | content of a line | used by |
/// |---|---|---|
/// | `registrations.jsonl` | `{"app_id", "public_key", "certificate_key"}`, keys in base64 of 65-byte points | registration |
/// | `keys.jsonl` | `{"app_id", "hardware_key", "certificate_key"}`, keys in PEM, private | the load generator |
/// | `counter` | the last counter value of any device | the load generator |
public struct DeviceFleet {
    public struct Member {
        public let appID: AppID
        public let hardwareKey: PrivateKey
        public let certificateKey: PrivateKey
    }

    public let members: [Member]
    /// The shared counter. Every device may use its values, each of them once.
    public let counter: CounterFile

    /// Limit of devices in a fleet.
    public static let sizeLimit = 20_000
    private static let lineLimit = 1_024

    /// Creates new devices. Replaces nothing.
    ///
    /// - Parameter count: 1 to `sizeLimit`.
    public static func create(_ path: String, appID: AppID, count: Int, _ library: LibraryContext) throws {
        guard (1...sizeLimit).contains(count) else { throw SimulatorError("a fleet has 1 to \(sizeLimit) devices") }
        for name in ["registrations.jsonl", "keys.jsonl", "counter"] where SimulatorFile.exists("\(path)/\(name)") {
            throw SimulatorError("\(path)/\(name) already exists; nothing was written")
        }
        var registrations: [UInt8] = []
        var keys: [UInt8] = []
        for _ in 0..<count {
            let hardwareKey = try PrivateKey.generateP256(library)
            let certificateKey = try PrivateKey.generateP256(library)
            registrations += try line(
                Registration(
                    appID: appID.description, publicKey: base64(hardwareKey), certificateKey: base64(certificateKey)))
            keys += try line(
                Keys(appID: appID.description, hardwareKey: pem(hardwareKey), certificateKey: pem(certificateKey)))
        }
        try SimulatorFile.makeDirectory(path)
        try SimulatorFile.create("\(path)/keys.jsonl", keys)
        try SimulatorFile.create("\(path)/registrations.jsonl", registrations)
        try CounterFile(path: "\(path)/counter").create()
    }

    /// Opens the first devices of a fleet made by `create`.
    ///
    /// - Parameters:
    ///   - count: The number of devices to open, if there are as many.
    ///   - least: The minimum number of devices.
    public init(opening path: String, first count: Int, atLeast least: Int = 1, _ library: LibraryContext) throws {
        let file = "\(path)/keys.jsonl"
        let lines = try SimulatorFile.read(file, atMost: Self.sizeLimit * Self.lineLimit)
            .split(separator: UInt8(ascii: "\n"))
        guard (least...Self.sizeLimit).contains(lines.count) else {
            throw SimulatorError("\(file) has \(lines.count) devices, not \(least) to \(Self.sizeLimit)")
        }
        members = try lines.prefix(count).enumerated().map { number, line in
            guard let keys = try? JSONDecoder().decode(Keys.self, from: Data(line)), let appID = AppID(keys.appID)
            else {
                throw SimulatorError("\(file): line \(number + 1) is not a device")
            }
            return Member(
                appID: appID, hardwareKey: try PrivateKey(pem: Array(keys.hardwareKey.utf8), library),
                certificateKey: try PrivateKey(pem: Array(keys.certificateKey.utf8), library))
        }
        counter = CounterFile(path: "\(path)/counter")
    }

    private struct Registration: Codable {
        let appID: String
        let publicKey: String
        let certificateKey: String

        enum CodingKeys: String, CodingKey {
            case appID = "app_id"
            case publicKey = "public_key"
            case certificateKey = "certificate_key"
        }
    }

    private struct Keys: Codable {
        let appID: String
        let hardwareKey: String
        let certificateKey: String

        enum CodingKeys: String, CodingKey {
            case appID = "app_id"
            case hardwareKey = "hardware_key"
            case certificateKey = "certificate_key"
        }
    }

    private static func line(_ value: some Encodable) throws -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return Array(try encoder.encode(value)) + [UInt8(ascii: "\n")]
    }

    private static func base64(_ key: PrivateKey) -> String {
        Base64.encode(key.publicKey.uncompressedPoint ?? [])
    }

    private static func pem(_ key: PrivateKey) throws -> String { String(decoding: try key.pem(), as: UTF8.self) }
}
