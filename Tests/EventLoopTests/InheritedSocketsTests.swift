import Foundation
import TestVectors
import Testing

@testable import EventLoop

@Suite("Inherited sockets")
struct InheritedSocketsTests {
    private func listener(on text: String = "127.0.0.1:0") throws -> (descriptor: Int32, address: SocketAddress) {
        let descriptor = try Socket.listen(on: SocketAddress(text)).detach()
        return (descriptor, SocketAddress { getsockname(descriptor, $0, $1) })
    }

    @Test("sockets are found by address, all of one address together, and each once")
    func byAddress() throws {
        let first = try listener()
        let again = try listener(on: first.address.description)
        let other = try listener()
        let sockets = try InheritedSockets([first.descriptor, other.descriptor, again.descriptor])
        #expect(sockets.take(first.address) == [first.descriptor, again.descriptor])
        #expect(sockets.take(first.address).isEmpty)
        #expect(sockets.left == [other.address.description])
        close(first.descriptor)
        close(again.descriptor)
    }

    @Test("inherited sockets do not block and are closed in child processes")
    func flags() throws {
        let given = try listener()
        _ = fcntl(given.descriptor, F_SETFL, 0)
        _ = fcntl(given.descriptor, F_SETFD, 0)
        let sockets = try InheritedSockets([given.descriptor])
        #expect(fcntl(given.descriptor, F_GETFL) & O_NONBLOCK != 0)
        #expect(fcntl(given.descriptor, F_GETFD) & FD_CLOEXEC != 0)
        #expect(sockets.left.count == 1)
    }

    @Test("sockets that nothing takes are closed")
    func closed() throws {
        let given = try listener()
        do { _ = try InheritedSockets([given.descriptor]) }
        #expect(fcntl(given.descriptor, F_GETFD) == -1)
    }

    @Test("sockets that do not listen are refused")
    func refused() throws {
        let idle = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        let datagrams = socket(AF_INET, Int32(SOCK_DGRAM.rawValue), 0)
        defer {
            close(idle)
            close(datagrams)
        }
        for descriptor in [idle, datagrams, 1_000_000] {
            #expect(throws: EventLoopError.self) { try InheritedSockets([descriptor]) }
        }
    }

    @Test("a Unix socket inherited with its lock is served, and the lock stays exclusive")
    func unixSocket() throws {
        let directory = try SocketDirectory()
        let before = try SocketFile(path: directory.socket)
        let socket = try before.listen().detach()
        let lock = try #require(before.duplicateLock())
        let after = try SocketFile(path: directory.socket, inherited: InheritedSockets([socket, lock]))
        before.giveAway()
        before.remove()
        #expect(access(directory.socket, F_OK) == 0, "the file is the new one's")
        #expect(after.isLocked)
        #expect(throws: SocketFileError.served(path: directory.socket)) { try SocketFile(path: directory.socket) }
        #expect(try after.listen().detach() == socket)
        close(socket)
        after.remove()
        #expect(access(directory.socket, F_OK) != 0)
    }

    @Test("a Unix socket inherited without a lock is the service manager's, and its file stays")
    func managersSocket() throws {
        let directory = try SocketDirectory()
        let manager = try SocketFile(path: directory.socket)
        let socket = try manager.listen().detach()
        do {
            let file = try SocketFile(path: directory.socket, inherited: InheritedSockets([socket]))
            #expect(!file.isLocked && file.duplicateLock() == nil)
            #expect(try file.listen().detach() == socket)
            file.remove()
        }
        #expect(access(directory.socket, F_OK) == 0)
        close(socket)
    }
}
