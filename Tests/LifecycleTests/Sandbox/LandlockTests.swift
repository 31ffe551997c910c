import EventLoop
import Foundation
import Synchronization
import Testing

@testable import Lifecycle

@Suite("The Landlock sandbox", .enabled(if: Landlock.version > 0, "this kernel has no Landlock"))
struct LandlockTests {
    /// What happens on a thread that is confined, for a confinement ends with its thread.
    private func confined<Result: Sendable>(
        _ rules: FileRules, _ body: @escaping @Sendable () -> Result
    ) throws -> Result {
        let found = Found<Result>()
        let thread = try LoopThread(name: "confined") {
            guard case .landlock = Landlock.enter(rules) else { return }
            let result = body()
            found.result.withLock { $0 = result }
        }
        thread.join()
        return try #require(found.result.withLock { $0 })
    }

    private final class Found<Result: Sendable>: Sendable {
        let result = Mutex<Result?>(nil)
    }

    /// - Returns: the error number; 0 if it can be opened.
    private static func opening(_ path: String, _ flags: Int32) -> Int32 {
        let descriptor = open(path, flags, 0o600)
        guard descriptor >= 0 else { return errno }
        close(descriptor)
        return 0
    }

    @Test("a confined thread reads and writes only where the rules allow, even as root")
    func files() throws {
        let (inside, outside) = (try ScratchDirectory(), try ScratchDirectory())
        for directory in [inside, outside] { try Data("x".utf8).write(to: URL(filePath: directory.file("old"))) }
        let rules = FileRules(
            read: [], written: [inside.file("any")], program: "/usr/lib/none", libraries: [])
        let (old, new) = (inside.file("old"), inside.file("new"))
        let (foreign, made) = (outside.file("old"), outside.file("new"))
        let outcomes = try confined(rules) {
            [
                Self.opening(old, O_RDWR), Self.opening(new, O_RDWR | O_CREAT), unlink(new) == 0 ? 0 : errno,
                truncate(old, 0) == 0 ? 0 : errno,
                Self.opening(foreign, O_RDONLY), Self.opening(foreign, O_WRONLY), Self.opening(made, O_RDWR | O_CREAT),
                unlink(foreign) == 0 ? 0 : errno, Self.opening("/etc/profile", O_RDONLY),
                symlink("/etc", new) == 0 ? 0 : errno, mkdir(new, 0o700) == 0 ? 0 : errno,
            ]
        }
        #expect(outcomes == [0, 0, 0, 0] + [Int32](repeating: EACCES, count: 7))
        // Others go on as before.
        #expect(Self.opening(foreign, O_RDWR) == 0)
    }

    @Test("a readable file cannot be changed")
    func readable() throws {
        let directory = try ScratchDirectory()
        try Data("x".utf8).write(to: URL(filePath: directory.file("key")))
        let rules = FileRules(read: [directory.file("key")], written: [], program: "/usr/lib/none", libraries: [])
        let (path, beside) = (directory.file("key"), directory.file("beside"))
        let outcomes = try confined(rules) {
            [Self.opening(path, O_RDONLY), Self.opening(path, O_WRONLY), Self.opening(beside, O_WRONLY | O_CREAT)]
        }
        #expect(outcomes == [0, EACCES, EACCES])
    }
}
