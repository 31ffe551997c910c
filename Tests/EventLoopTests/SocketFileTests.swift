import Foundation
import TestVectors
import Testing

@testable import EventLoop

/// A holder that keeps a socket open for a test.
private final class Kept {
    let number: Int32

    init(_ socket: consuming Socket) {
        number = socket.detach()
    }

    deinit {
        close(number)
    }
}

@Suite("The file of a Unix socket")
struct SocketFileTests {
    private let directory: SocketDirectory
    private var path: String { directory.socket }

    init() throws {
        directory = try SocketDirectory()
    }

    private func mode(of path: String) throws -> UInt32 {
        var status = stat()
        try #require(lstat(path, &status) == 0)
        return status.st_mode
    }

    private func connects() -> Bool {
        guard let address = try? SocketAddress(unixPath: path) else { return false }
        do {
            _ = try Socket.connect(to: address)
            return true
        } catch {
            return false
        }
    }

    /// Leaves a socket's file like a process that was killed.
    private func leaveStale() throws {
        let address = try SocketAddress(unixPath: path)
        let server = Kept(Socket(adopting: socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)))
        defer { withExtendedLifetime(server) {} }
        try #require(address.withSockaddr { bind(server.number, $0, $1) } == 0)
    }

    @Test("the file has mode 0600, accepts connections, and is removed at the end")
    func life() throws {
        do {
            let file = try SocketFile(path: path)
            let server = Kept(try file.listen())
            defer { withExtendedLifetime(server) {} }
            #expect(try mode(of: path) == S_IFSOCK | 0o600)
            #expect(try mode(of: path + ".lock") == S_IFREG | 0o600)
            #expect(connects())
        }
        #expect(!FileManager.default.fileExists(atPath: path))
    }

    @Test("the file has mode 0600 before the socket listens")
    func modeAtOnce() throws {
        // `listen` relies on this: bind creates the file with the mode of the socket.
        let address = try SocketAddress(unixPath: path)
        let server = Kept(Socket(adopting: socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)))
        defer { withExtendedLifetime(server) {} }
        try #require(fchmod(server.number, 0o600) == 0)
        try #require(address.withSockaddr { bind(server.number, $0, $1) } == 0)
        #expect(try mode(of: path) == S_IFSOCK | 0o600)
    }

    @Test("the file of a dead process is replaced")
    func stale() throws {
        try leaveStale()
        #expect(!connects())
        let file = try SocketFile(path: path)
        let server = Kept(try file.listen())
        defer { withExtendedLifetime(server) {} }
        #expect(connects())
    }

    @Test("the file of a running server is refused and stays")
    func live() throws {
        let file = try SocketFile(path: path)
        let server = Kept(try file.listen())
        defer { withExtendedLifetime(server) {} }
        #expect(throws: SocketFileError.served(path: path)) { _ = try SocketFile(path: path) }
        #expect(connects())
    }

    @Test("the file of a listening process without a lock is refused")
    func foreign() throws {
        try leaveStale()
        try FileManager.default.removeItem(atPath: path)
        let address = try SocketAddress(unixPath: path)
        let server = Kept(Socket(adopting: socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)))
        defer { withExtendedLifetime(server) {} }
        try #require(address.withSockaddr { bind(server.number, $0, $1) } == 0)
        try #require(listen(server.number, 1) == 0)
        #expect(throws: SocketFileError.served(path: path)) { _ = try SocketFile(path: path) }
        #expect(connects())
    }

    @Test("another process's file is refused while it lives and replaced after it was killed")
    func otherProcess() throws {
        let script = """
            import fcntl, socket, sys
            lock = open(sys.argv[1] + ".lock", "w")
            fcntl.flock(lock, fcntl.LOCK_EX)
            server = socket.socket(socket.AF_UNIX)
            server.bind(sys.argv[1])
            server.listen()
            print("listening", flush=True)
            sys.stdin.read()
            """
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/python3")
        process.arguments = ["-c", script, path]
        let output = Pipe()
        process.standardOutput = output
        process.standardInput = Pipe()
        try process.run()
        _ = output.fileHandleForReading.availableData
        #expect(throws: SocketFileError.served(path: path)) { _ = try SocketFile(path: path) }
        kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
        #expect(FileManager.default.fileExists(atPath: path))
        let file = try SocketFile(path: path)
        let server = Kept(try file.listen())
        defer { withExtendedLifetime(server) {} }
        #expect(connects())
    }

    @Test("a file that is not a socket is never replaced")
    func noSocket() throws {
        try "precious".write(toFile: path, atomically: true, encoding: .utf8)
        #expect(throws: SocketFileError.noSocket(path: path)) { _ = try SocketFile(path: path) }
        #expect(try String(contentsOfFile: path, encoding: .utf8) == "precious")
        try FileManager.default.removeItem(atPath: path)
        // A symbolic link is not followed either.
        symlink("/nowhere/else", path)
        #expect(throws: SocketFileError.noSocket(path: path)) { _ = try SocketFile(path: path) }
    }

    @Test("a file that something else has replaced is not removed")
    func replaced() throws {
        let file = try SocketFile(path: path)
        let server = Kept(try file.listen())
        defer { withExtendedLifetime(server) {} }
        try FileManager.default.removeItem(atPath: path)
        try "somebody's".write(toFile: path, atomically: true, encoding: .utf8)
        file.remove()
        #expect(FileManager.default.fileExists(atPath: path))
    }

    @Test("mode and owner of what has replaced the socket stay, also behind a link", arguments: [false, true])
    func replacedBefore(isLink: Bool) throws {
        let file = try SocketFile(path: path)
        let server = Kept(try file.listen())
        defer { withExtendedLifetime(server) {} }
        try FileManager.default.removeItem(atPath: path)
        let precious = isLink ? path + ".precious" : path
        try "somebody's".write(toFile: precious, atomically: true, encoding: .utf8)
        try #require(chmod(precious, 0o600) == 0)
        if isLink { try #require(symlink(precious, path) == 0) }
        #expect(throws: SocketFileError.replaced(path: path)) { try file.admit(SocketFile.Access(mode: 0o666)) }
        #expect(try mode(of: precious) == S_IFREG | 0o600)
    }

    @Test("mode and owner of the socket itself change")
    func admits() throws {
        let file = try SocketFile(path: path, access: SocketFile.Access(mode: 0o660, group: getegid()))
        let server = Kept(try file.listen())
        defer { withExtendedLifetime(server) {} }
        #expect(try mode(of: path) == S_IFSOCK | 0o660)
        try file.admit(SocketFile.Access(mode: 0o606, owner: geteuid()))
        #expect(try mode(of: path) == S_IFSOCK | 0o606)
        try file.admit(SocketFile.Access())
        #expect(try mode(of: path) == S_IFSOCK | 0o600)
    }

    @Test("an unusable path is refused", arguments: ["", String(repeating: "a", count: 108), "a\0b"])
    func paths(_ path: String) {
        #expect(throws: SocketFileError.pathUnusable(path: path)) { _ = try SocketFile(path: path) }
        #expect(throws: EventLoopError.address(path)) { _ = try SocketAddress(unixPath: path) }
    }

    @Test("a missing directory is a clear error")
    func noDirectory() throws {
        let path = "/nowhere/at/all.sock"
        do {
            _ = try SocketFile(path: path)
            Issue.record("made in no directory")
        } catch {
            #expect(error.description == "cannot open \(path).lock: No such file or directory")
        }
    }

    @Test("a Unix address has neither name nor port")
    func peer() throws {
        let address = try SocketAddress(unixPath: "/run/a.sock")
        #expect(address.isUnix)
        #expect(address.isLoopback)
        #expect(!address.isIPv6)
        #expect(address.port == 0)
        #expect(address.description == "unix")
    }
}
