import Foundation
import Glibc
import Testing

@testable import Lifecycle

@Suite("A file that the conf file names")
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

    @Test("is read whole, whatever its size", arguments: [0, 1, 65_535, 65_536, 65_537, 200_000])
    func whole(count: Int) throws {
        #expect(try FileContents.read(write(count)) == [UInt8](repeating: 7, count: count))
    }

    @Test("that the kernel makes as it is read has no size, and is read all the same")
    func made() throws {
        #expect(try !FileContents.read("/proc/self/statm").isEmpty)
    }

    @Test("that is a pipe is refused at once: nobody would ever write to it")
    func pipe() throws {
        let path = directory.file("pipe")
        #expect(mkfifo(path, 0o600) == 0)
        let failures = [
            #expect(throws: FileContents.Failure.self) { try FileContents.read(path) },
            #expect(throws: FileContents.Failure.self) { try FileContents.readPrivate(path) },
        ]
        for failure in failures { #expect(failure?.description == "\(path): is not a regular file") }
    }

    @Test("that is a directory or a device is refused", arguments: ["/tmp", "/dev/zero", "/dev/null"])
    func others(path: String) throws {
        let failure = #expect(throws: FileContents.Failure.self) { try FileContents.read(path) }
        #expect(failure?.reason == "is not a regular file")
    }

    @Test("that is not there is told apart from one that cannot be read")
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
        "with a secret in it is refused if others may read or write it", arguments: [0o640, 0o604, 0o620, 0o602, 0o610])
    func shared(mode: Int) throws {
        let path = try write(32, mode: mode)
        let failure = #expect(throws: FileContents.Failure.self) { try FileContents.readPrivate(path) }
        #expect(failure?.reason == "may be read or written by others: its mode must be 0600")
        #expect(try FileContents.read(path).count == 32)
    }

    @Test("with a secret in it is refused by the mode of what a link leads to")
    func linked() throws {
        let link = directory.file("link")
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: try write(32, mode: 0o644))
        #expect(throws: FileContents.Failure.self) { try FileContents.readPrivate(link) }
        _ = try write(32)
        #expect(try FileContents.readPrivate(link).count == 32)
    }

    @Test("with a secret in it is refused if it belongs to another user", .enabled(if: geteuid() == 0))
    func foreign() throws {
        let path = try write(32)
        #expect(chown(path, 65_534, 65_534) == 0)
        let failure = #expect(throws: FileContents.Failure.self) { try FileContents.readPrivate(path) }
        #expect(failure?.reason == "belongs to another user (uid 65534)")
    }

    @Test("with a secret in it is small")
    func large() throws {
        #expect(try FileContents.readPrivate(write(65_536)).count == 65_536)
        #expect(throws: FileContents.Failure.self) { try FileContents.readPrivate(write(65_537)) }
    }
}
