internal import Bytes
internal import EventLoop
internal import HTTP

/// A request of a client.
struct ClientRequest {
    let method: HTTP.Method
    /// The path and query.
    let target: String
    /// JSON, or empty.
    let content: [UInt8]

    init(_ method: HTTP.Method, _ target: String, content: [UInt8] = []) {
        self.method = method
        self.target = target
        self.content = content
    }

    /// Whether the request may change something.
    var isChange: Bool { method != .get }

    func write(to output: inout ByteBuffer) {
        output.append(method.name)
        output.append(" \(target) HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n")
        if !content.isEmpty { output.appendField("Content-Type", "application/json") }
        if method == .post { output.appendField("Content-Length", decimal: UInt64(content.count)) }
        output.append("\r\n")
        output.append(content)
    }
}

/// One request and its response, with its own connection and loop. The loop stops at the outcome.
final class ClientConversation: SocketHandler {
    typealias Outcome = Result<(status: UInt16, content: [UInt8]), AdministrationClientError>

    private(set) var outcome: Outcome
    private let method: HTTP.Method
    private let isChange: Bool
    private var input: ByteBuffer
    private var output: ByteBuffer
    private var parser = ResponseHeadParser(limits: .standard)
    private var head = ResponseHead()
    private var decoder: ContentDecoder?
    private var content: [UInt8] = []

    /// Limit of a response's content in bytes: several times the largest page.
    private static let contentLimit = 4 * 1024 * 1024

    init(loop: Loop, socket: consuming Socket, request: ClientRequest, patience: TimeSpan) {
        let pool = BufferPool()
        method = request.method
        isChange = request.isChange
        outcome = .failure(.disconnected(mayHaveChanged: request.isChange))
        input = ByteBuffer(pool: pool)
        output = ByteBuffer(pool: pool)
        request.write(to: &output)
        super.init(loop: loop, socket: socket)
        setDeadline(.now + patience)
        wantRead(true)
        wantWrite(true)
    }

    override func writable() {
        if !output.isEmpty, case .failed = send(from: &output) {
            // An answer may have arrived before the connection's end was noticed. Reading will show it.
            output.removeAll()
        }
        if output.isEmpty { wantWrite(false) }
    }

    override func readable() {
        switch receive(into: &input) {
        case .bytes: while isOpen, advance() {}
        case .wouldBlock: break
        case .endOfStream, .failed: finish(.failure(.disconnected(mayHaveChanged: isChange)))
        }
    }

    override func deadlinePassed() { finish(.failure(.timeout(mayHaveChanged: isChange))) }

    /// Continues the conversation.
    ///
    /// - Returns: whether there may be more to do now.
    private func advance() -> Bool {
        do throws(MessageFault) {
            guard var decoder else {
                switch try parser.parse(input.readable, answering: method, into: &head) {
                case .incomplete: return false
                case .complete(let length): input.consume(length)
                }
                if !head.isInterim { self.decoder = ContentDecoder(head.framing, extensions: .refused) }
                return true
            }
            defer { self.decoder = decoder }
            switch try decoder.next(input.readable) {
            case .needMore: return false
            case .framing(let count): input.consume(count)
            case .content(let count):
                content += input.copy().prefix(count)
                guard content.count <= Self.contentLimit else { throw .headTooLarge }
                input.consume(count)
                decoder.consumed(count)
            case .end:
                finish(.success((head.status, content)))
                return false
            }
            return true
        } catch {
            finish(.failure(.malformed))
            return false
        }
    }

    private func finish(_ outcome: Outcome) {
        self.outcome = outcome
        close()
        loop.stop()
    }
}

extension DeviceOperation {
    /// The request for a running gateway.
    var request: ClientRequest {
        switch self {
        case .add(let registration): ClientRequest(.post, "/devices", content: registration.json)
        case .list(let after, let limit):
            ClientRequest(.get, "/devices?after=\(after?.number ?? 0)&limit=\(limit)")
        case .listPending(let after, let limit):
            ClientRequest(.get, "/devices?state=pending&after=\(after?.number ?? 0)&limit=\(limit)")
        case .search(let search, let after, let limit):
            ClientRequest(.get, "/devices?\(search.query)after=\(after?.number ?? 0)&limit=\(limit)")
        case .approve(let device): ClientRequest(.post, "/devices/\(device.segment)/approve")
        case .show(let device): ClientRequest(.get, "/devices/\(device.segment)")
        case .revoke(let device): ClientRequest(.post, "/devices/\(device.segment)/revoke")
        case .restore(let device): ClientRequest(.post, "/devices/\(device.segment)/restore")
        }
    }

    /// Parses a running gateway's answer.
    func answer(_ content: [UInt8]) throws -> DeviceAnswer {
        switch self {
        case .list, .listPending, .search: .page(try JSONText.decode(DevicePage.self, from: content))
        default: .device(try JSONText.decode(DeviceDocument.self, from: content))
        }
    }
}
