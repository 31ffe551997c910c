import Cryptography
import DeviceSimulator
import Foundation
import Testing

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
    func before() async throws {
        let key = try SimulatedHardwareKey(device)
        let assertion = try await key.assertion(clientDataHash: [UInt8](repeating: 0, count: 32))
        #expect(!assertion.isEmpty)
        #expect(try String(contentsOfFile: path, encoding: .utf8) == "1\n")
    }

    @Test("a process killed while writing leaves the old value or the new one")
    func killed() throws {
        _ = try device.counter.take(41)
        // What a killed process leaves behind: a draft that was not finished, and a lock that nobody holds.
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
