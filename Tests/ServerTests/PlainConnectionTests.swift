import Bytes
import EventLoop
import HTTP
import TestVectors
import Testing

@testable import Server

/// Answers each request with so many bytes, and a request that faults or comes too late with a status.
private final class Answering: Application {
    var answerLength = 5
    /// The status of an answer that does not wait for the content.
    var denial: UInt16?
    var identities: [Bool] = []
    var peers: [String] = []
    var refusals = 0

    override func makeExchange(for connection: ServerConnection) -> Exchange {
        AnsweringExchange(connection: connection, self)
    }

    override func connectionRefused(_ connection: ServerConnection, _ refusal: ConnectionRefusal) { refusals += 1 }
}

private final class AnsweringExchange: Exchange {
    private let application: Answering
    private var left = 0

    init(connection: ServerConnection, _ application: Answering) {
        self.application = application
        super.init(connection: connection)
    }

    override func headReceived() {
        application.identities.append(connection.identity != nil)
        application.peers.append(connection.peer.description)
        if let denial = application.denial { answer(denial, 0) }
    }

    override func contentEnded() {
        if !isAnswered { answer(200, application.answerLength) }
    }

    override func requestFaulted(_ fault: MessageFault) { answer(400, 0) }
    override func requestTimedOut() { answer(408, 0) }
    override func outputDrained() { push() }

    private func answer(_ status: UInt16, _ length: Int) {
        guard !isAnswered else { return abort() }
        left = length
        _ = sendHead(status, content: length == 0 ? .none : .length(UInt64(length))) { _ in }
        push()
    }

    private func push() {
        while left > 0 {
            let block = [UInt8](repeating: UInt8(ascii: "x"), count: min(left, 4096))
            let taken = sendContent(block.span)
            guard taken > 0 else { return }
            left -= taken
        }
        _ = sendEnd()
    }
}

@Suite("Plain connections")
struct PlainConnectionTests {
    private let directory: SocketDirectory
    private let loop: Loop
    private let application = Answering()
    private let file: SocketFile

    init() throws {
        directory = try SocketDirectory()
        loop = try Loop()
        file = try SocketFile(path: directory.socket)
    }

    private func serve(_ change: (inout ServerSettings) -> Void = { _ in }) throws -> Acceptor {
        var settings = ServerSettings()
        change(&settings)
        let acceptor = Acceptor(loop: loop, settings: settings, pool: BufferPool(), application: application)
        acceptor.listen(on: try file.listen())
        return acceptor
    }

    private func client() throws -> RawClient { try RawClient(loop: loop, socketPath: directory.socket) }

    private let request = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
    private let answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nxxxxx"

    @Test("requests of clients without an identity are served in turn")
    func inTurn() throws {
        let acceptor = try serve()
        let client = try client()
        client.send(request)
        #expect(client.run { $0.received == answer })
        client.send(request)
        #expect(client.run { $0.received == answer + answer })
        #expect(application.identities == [false, false])
        #expect(application.peers == ["unix", "unix"])
        #expect(acceptor.connectionCount == 1)
        acceptor.abortAll()
        #expect(client.run())
        #expect(acceptor.connectionCount == 0)
        #expect(acceptor.pool.outstanding == 0)
    }

    @Test("pipelined requests are served, and bytes that come one by one")
    func ahead() throws {
        let acceptor = try serve()
        let client = try client()
        client.send(request + request + request)
        #expect(client.run { $0.received == answer + answer + answer })
        for byte in request.utf8 {
            client.send([byte])
            client.run { $0.received.hasSuffix("x") }
        }
        #expect(client.run { $0.received == answer + answer + answer + answer })
        acceptor.abortAll()
    }

    @Test("a client that does not read holds at most two blocks and is served when it reads")
    func backPressure() throws {
        application.answerLength = 8 * 1024 * 1024
        let acceptor = try serve()
        let slow = try client()
        slow.pause(true)
        slow.send(request)
        // Another client is served meanwhile, and the first one's answer waits in the kernel and in its block.
        let other = try client()
        other.send("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        #expect(other.run())
        #expect(other.bytes.count > application.answerLength)
        #expect(acceptor.pool.outstanding <= 2)
        slow.pause(false)
        #expect(slow.run { $0.bytes.count > application.answerLength })
        acceptor.abortAll()
        slow.run()
        #expect(acceptor.pool.outstanding == 0)
    }

    @Test("an idle connection is closed without an answer")
    func idle() throws {
        let acceptor = try serve { $0.keepAliveTimeout = .milliseconds(50) }
        let client = try client()
        #expect(client.run())
        #expect(client.received == "")
        #expect(application.refusals == 0)
        #expect(acceptor.connectionCount == 0)
    }

    @Test("a slow head is answered and the connection closed")
    func slowHead() throws {
        let acceptor = try serve { $0.headTimeout = .milliseconds(50) }
        let client = try client()
        client.send("GET / HT")
        #expect(client.run { $0.isEnded || !$0.received.isEmpty })
        client.close()
        #expect(client.received.hasPrefix("HTTP/1.1 408 "))
        acceptor.abortAll()
    }

    @Test("slow content is answered and the connection closed")
    func slowContent() throws {
        let acceptor = try serve { $0.contentIdleTimeout = .milliseconds(50) }
        let client = try client()
        client.send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n12345")
        #expect(client.run { $0.isEnded || !$0.received.isEmpty })
        client.close()
        #expect(client.received.hasPrefix("HTTP/1.1 408 "))
        acceptor.abortAll()
    }

    @Test(
        "malformed content sent with its head gets its denial",
        arguments: ["5;\n", "x", "-5\r\n"])
    func malformedContentOfDeniedRequest(_ content: String) throws {
        application.denial = 404
        let acceptor = try serve()
        let client = try client()
        client.send("POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" + content)
        // Refused as it would be if the content came later, and nothing behind it is read.
        #expect(client.run())
        #expect(client.received.hasPrefix("HTTP/1.1 404 "))
        #expect(client.received.ranges(of: "HTTP/1.1").count == 1)
        acceptor.abortAll()
    }

    @Test("another protocol such as TLS is refused")
    func garbage() throws {
        let acceptor = try serve()
        for bytes in [[0x16, 0x03, 0x01, 0x02, 0x00, 0x01], [0x00], [0x0d, 0x0a]] as [[UInt8]] {
            let client = try client()
            client.send(bytes)
            #expect(client.run { !$0.received.isEmpty })
            #expect(client.received.hasPrefix("HTTP/1.1 400 "))
        }
        acceptor.abortAll()
    }

    @Test("connections above the limit are closed while the others are in use")
    func limit() throws {
        let acceptor = try serve { $0.connections = 1 }
        let first = try client()
        // And the beginning of another request.
        first.send(request + "GET ")
        #expect(first.run { $0.received == answer })
        let second = try client()
        #expect(second.run())
        #expect(second.received == "")
        #expect(application.refusals == 1)
        acceptor.abortAll()
    }

    @Test("an idle connection is closed for a new one above the limit")
    func givesWay() throws {
        let acceptor = try serve { $0.connections = 1 }
        let first = try client()
        first.send(request)
        #expect(first.run { $0.received == answer })
        let second = try client()
        second.send(request)
        #expect(second.run { $0.received == answer })
        #expect(first.run())
        #expect(application.refusals == 1)
        acceptor.abortAll()
    }
}
