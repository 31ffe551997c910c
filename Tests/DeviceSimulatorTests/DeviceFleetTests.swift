import Cryptography
import DeviceSimulator
import Foundation
import Testing

@Suite("A fleet of simulated devices")
struct DeviceFleetTests {
    private let temporary: TemporaryDirectory
    private let library: LibraryContext

    init() throws {
        temporary = try TemporaryDirectory()
        library = try LibraryContext()
        try DeviceFleet.create(temporary.path, appID: Sample.appID, count: 3, library)
    }

    private func lines(_ name: String) throws -> [[String: String]] {
        try String(contentsOfFile: temporary.path + "/" + name, encoding: .utf8)
            .split(separator: "\n")
            .map { try JSONDecoder().decode([String: String].self, from: Data($0.utf8)) }
    }

    @Test("each line has what a registration needs, and nothing secret")
    func registrations() throws {
        let registrations = try lines("registrations.jsonl")
        let fleet = try DeviceFleet(opening: temporary.path, first: 5, library)
        #expect(registrations.count == 3 && fleet.members.count == 3)
        for (registration, member) in zip(registrations, fleet.members) {
            #expect(Set(registration.keys) == ["app_id", "public_key", "certificate_key"])
            #expect(registration["app_id"] == Sample.appID.description && member.appID == Sample.appID)
            for (name, key) in [("public_key", member.hardwareKey), ("certificate_key", member.certificateKey)] {
                let point = Data(key.publicKey.uncompressedPoint ?? [])
                #expect(point.count == 65 && registration[name] == point.base64EncodedString())
            }
        }
    }

    @Test("the files are readable by their owner alone and never overwritten")
    func files() throws {
        for name in try TemporaryDirectory.names(temporary.path) {
            #expect(try TemporaryDirectory.permissions(temporary.path + "/" + name) == 0o600, "\(name)")
        }
        #expect(throws: SimulatorError.self) {
            try DeviceFleet.create(temporary.path, appID: Sample.appID, count: 1, library)
        }
    }

    @Test("a fleet opens with fewer devices than it has, but not with more")
    func some() throws {
        #expect(try DeviceFleet(opening: temporary.path, first: 2, library).members.count == 2)
        #expect(throws: SimulatorError.self) {
            try DeviceFleet(opening: temporary.path, first: 2, atLeast: 4, library)
        }
    }

    @Test("a line that is not a device is reported")
    func damaged() throws {
        let path = temporary.path + "/keys.jsonl"
        let handle = try #require(FileHandle(forWritingAtPath: path))
        try handle.seekToEnd()
        try handle.write(contentsOf: Data("{}\n".utf8))
        #expect(throws: SimulatorError.self) { try DeviceFleet(opening: temporary.path, first: 5, library) }
        #expect(try DeviceFleet(opening: temporary.path, first: 3, library).members.count == 3)
    }
}
