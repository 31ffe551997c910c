import Bytes
import EventLoop
import HTTP
import TestVectors
import Testing

@testable import Server

/// Sends content while the head is written, which borrows the connection's output.
private final class OverlappingExchange: Exchange {
    override func headReceived() {
        _ = sendHead(200, content: .length(1)) { [unowned self] _ in
            let content: [UInt8] = [0x78]
            _ = sendContent(content.span)
        }
    }

    override func contentEnded() {}
    override func requestFaulted(_ fault: MessageFault) {}
    override func requestTimedOut() {}
    override func outputDrained() {}
}

private final class OverlappingApplication: Application {
    override func makeExchange(for connection: ServerConnection) -> Exchange {
        OverlappingExchange(connection: connection)
    }
}

/// Release builds of the hot path do not check accesses at run time: these builds find what overlaps.
@Suite("Exclusivity")
struct ExclusivityTests {
    @Test("a second access to a borrowed buffer ends the process")
    func overlap() async throws {
        let result = try await #require(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let directory = try SocketDirectory()
            let loop = try Loop()
            let acceptor = Acceptor(
                loop: loop, settings: ServerSettings(), pool: BufferPool(), application: OverlappingApplication())
            let file = try SocketFile(path: directory.socket)
            acceptor.listen(on: try file.listen())
            try withExtendedLifetime((directory, file, acceptor)) {
                let client = try RawClient(loop: loop, socketPath: directory.socket)
                client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
                client.run { $0.received.hasSuffix("x") }
            }
        }
        let output = String(decoding: result.standardErrorContent, as: UTF8.self)
        #expect(output.contains("Simultaneous accesses"), "\(result.exitStatus) \(output)")
    }
}
