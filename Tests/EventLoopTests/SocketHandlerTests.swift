import Bytes
import EventLoop
import Testing

/// A handler that counts its callbacks.
private final class Probe: SocketHandler {
    var deadlines = 0
    var onDeadline: () -> Void = {}
    var onRead: () -> Void = {}

    override func deadlinePassed() {
        deadlines += 1
        onDeadline()
    }

    override func readable() { onRead() }
}

@Suite("Socket handlers")
struct SocketHandlerTests {
    /// Returns a connected pair on loopback: the accepted end and the connecting end.
    private func pair(_ loop: Loop) throws -> (Probe, Probe) {
        var accepted: Probe?
        let listener = ListeningSocket(
            loop: loop, socket: try Socket.listen(on: SocketAddress("127.0.0.1:0"))
        ) { socket, _ in
            accepted = Probe(loop: loop, socket: socket)
            loop.stop()
        }
        let client = Probe(loop: loop, socket: try Socket.connect(to: listener.localAddress))
        loop.run()
        listener.close()
        return (try #require(accepted), client)
    }

    @Test("sent bytes arrive, and the end of the stream is reported")
    func transfer() throws {
        let loop = try Loop()
        let (server, client) = try pair(loop)
        var buffer = ByteBuffer(pool: BufferPool())
        buffer.append("hello")
        #expect(client.send(from: &buffer) == .bytes(5))
        var received = ByteBuffer(pool: BufferPool())
        var isEnded = false
        server.onRead = {
            switch server.receive(into: &received) {
            case .bytes: client.shutdownSending()
            case .endOfStream:
                isEnded = true
                loop.stop()
            case .wouldBlock, .failed: break
            }
        }
        server.wantRead(true)
        loop.run()
        #expect(isEnded)
        #expect(String(decoding: received.copy(), as: UTF8.self) == "hello")
    }

    @Test("a deadline moved later does not expire early, and one moved earlier does")
    func deadlines() throws {
        let loop = try Loop()
        let (server, client) = try pair(loop)
        server.setDeadline(.now + .milliseconds(20))
        let later = Instant.now + .milliseconds(80)
        server.setDeadline(later)
        server.onDeadline = {
            #expect(Instant.now >= later)
            if client.deadlines > 0 { loop.stop() }
        }
        let far = Instant.now + .seconds(100)
        client.setDeadline(far)
        client.setDeadline(.now + .milliseconds(1))
        client.onDeadline = {
            #expect(Instant.now < far)
            if server.deadlines > 0 { loop.stop() }
        }
        loop.run()
        #expect(server.deadlines == 1)
        #expect(client.deadlines == 1)
    }

    @Test("a closed handler receives no event, not even one already pending")
    func closed() throws {
        let loop = try Loop()
        let (server, client) = try pair(loop)
        server.onRead = { Issue.record("called after close") }
        server.wantRead(true)
        server.setDeadline(.now)
        var buffer = ByteBuffer(pool: BufferPool())
        buffer.append("x")
        _ = client.send(from: &buffer)
        server.close()
        client.onDeadline = { loop.stop() }
        client.setDeadline(.now + .milliseconds(20))
        loop.run()
        #expect(server.deadlines == 0)
        #expect(!server.isOpen)
    }
}

@Suite("Socket addresses")
struct SocketAddressTests {
    @Test("literals are parsed and printed unchanged", arguments: ["127.0.0.1:1", "[::1]:65535", "[2001:db8::1]:443"])
    func roundTrip(_ text: String) throws {
        #expect(try SocketAddress(text).description == text)
    }

    @Test("loopback addresses are recognized")
    func loopback() throws {
        #expect(try SocketAddress("127.9.9.9:1").isLoopback)
        #expect(try SocketAddress("[::1]:1").isLoopback)
        #expect(try !SocketAddress("10.0.0.1:1").isLoopback)
        #expect(try !SocketAddress("[::2]:1").isLoopback)
    }

    @Test(
        "any other text is refused",
        arguments: ["", "1", "localhost:1", "127.0.0.1", "127.0.0.1:x", "::1:1", "[::1]", "1.2.3.4:70000"])
    func refused(_ text: String) {
        #expect(throws: EventLoopError.address(text)) { try SocketAddress(text) }
    }
}
