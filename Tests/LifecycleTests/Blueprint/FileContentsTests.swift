import Foundation
import Glibc
import Testing

@testable import Lifecycle

@Suite("Reading files named by the conf file")
struct FileContentsTests {
    private let directory: ScratchDirectory

    init() throws {
        directory = try ScratchDirectory()
    }

    private func write(_ count: Int, mode: Int = 0o600) throws -> String {
        let path = directory.file("file")
        try Data(repeating: 7, count: count).write(to: URL(fileURLWithPath: path))
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path)
        return path
    }

    @Test("a file of any size is read completely", arguments: [0, 1, 65_535, 65_536, 65_537, 200_000])
    func whole(count: Int) throws {
        #expect(try FileContents.read(write(count)) == [UInt8](repeating: 7, count: count))
    }

    @Test("a file the kernel generates is read although it states no size")
    func made() throws {
        #expect(try !FileContents.read("/proc/self/statm").isEmpty)
    }

    @Test("a pipe is refused at once instead of waiting for a writer")
    func pipe() throws {
        let path = directory.file("pipe")
        #expect(mkfifo(path, 0o600) == 0)
        let failures = [
            #expect(throws: FileContents.Failure.self) { try FileContents.read(path) },
            #expect(throws: FileContents.Failure.self) { try FileContents.readPrivate(path) },
        ]
        for failure in failures { #expect(failure?.description == "\(path): is not a regular file") }
    }

    @Test("a directory or a device is refused", arguments: ["/tmp", "/dev/zero", "/dev/null"])
    func others(path: String) throws {
        let failure = #expect(throws: FileContents.Failure.self) { try FileContents.read(path) }
        #expect(failure?.reason == "is not a regular file")
    }

    @Test("a missing file and an unreadable one give different errors")
    func missing() throws {
        let failure = #expect(throws: FileContents.Failure.self) {
            try FileContents.readPrivate(directory.file("none"))
        }
        #expect(failure?.isMissing == true)
        #expect(failure?.reason == "cannot be read: No such file or directory")
        let beyond = #expect(throws: FileContents.Failure.self) { try FileContents.readPrivate(write(1) + "/none") }
        #expect(beyond?.isMissing == false)
    }

    @Test(
        "a secret file that others may read or write is refused", arguments: [0o640, 0o604, 0o620, 0o602, 0o610])
    func shared(mode: Int) throws {
        let path = try write(32, mode: mode)
        let failure = #expect(throws: FileContents.Failure.self) { try FileContents.readPrivate(path) }
        #expect(
            failure?.reason
                == "can be read or written by other users, but its mode must be 0600: chmod 0600 \(path)")
        #expect(try FileContents.read(path).count == 32)
    }

    @Test("a secret file behind a link is checked by the target's mode")
    func linked() throws {
        let link = directory.file("link")
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: try write(32, mode: 0o644))
        #expect(throws: FileContents.Failure.self) { try FileContents.readPrivate(link) }
        _ = try write(32)
        #expect(try FileContents.readPrivate(link).count == 32)
    }

    @Test("a secret file of another user is refused", .enabled(if: geteuid() == 0))
    func foreign() throws {
        let path = try write(32)
        #expect(chown(path, 65_534, 65_534) == 0)
        let failure = #expect(throws: FileContents.Failure.self) { try FileContents.readPrivate(path) }
        #expect(failure?.reason == "belongs to another user (uid 65534)")
    }

    @Test("a secret file has a small maximum size")
    func large() throws {
        #expect(try FileContents.readPrivate(write(65_536)).count == 65_536)
        #expect(throws: FileContents.Failure.self) { try FileContents.readPrivate(write(65_537)) }
    }
}
