public import EventLoop
public import HTTP

/// One request of our own to a service, answered whole: within a time, and with no more content than is wanted.
///
/// Redirects are answers like any other: what was meant for this service is sent to no other one. Where a kept connection
/// ended without an answer, the request is sent once more on a new one, if that does no harm.
public final class OutboundCall: UpstreamCall {
    public typealias Completion = (Result<OutboundAnswer, OutboundFailure>) -> Void

    private let pool: UpstreamPool
    private let loop: Loop
    private let request: OutboundRequest
    private let contentLimit: Int
    private var completion: Completion?
    private var timer: LoopTimer?
    private var hasEnded = false
    private var answer = OutboundAnswer()
    private var sent = 0
    private var maySendAgain: Bool

    /// - Parameters:
    ///   - contentLimit: bytes of the answer's content.
    ///   - isRepeatable: whether the service may get it twice.
    ///   - completion: called once, on the loop's thread and never from within `start`; not at all after `stop`.
    public init(
        _ request: OutboundRequest, on pool: UpstreamPool, loop: Loop, contentLimit: Int = 64 << 10,
        isRepeatable: Bool, completion: @escaping Completion
    ) {
        self.pool = pool
        self.loop = loop
        self.request = request
        self.contentLimit = contentLimit
        maySendAgain = isRepeatable
        self.completion = completion
    }

    /// - Parameter timeout: for all of it, the wait for a connection included.
    public func start(timeout: TimeSpan) {
        timer = LoopTimer(loop: loop, interval: timeout) { [unowned self] in
            cancel()
            end(.failure(.timeout))
        }
        begin(again: false)
    }

    /// Gives the call up without calling its completion.
    public func stop() {
        completion = nil
        timer = nil
        cancel()
    }

    private func begin(again: Bool) {
        sent = 0
        answer = OutboundAnswer()
        do throws(UpstreamFailure) {
            let carrier = try again ? pool.startAgain(self) : pool.start(self, for: 0)
            if let carrier { began(on: carrier) }
        } catch {
            end(.failure(.upstream(error)))
        }
    }

    /// Calls the completion when the turn ends, outside of any other event: it may start another call, or end all of
    /// them.
    private func end(_ result: Result<OutboundAnswer, OutboundFailure>) {
        guard !hasEnded else { return }
        hasEnded = true
        // Keeps this object until then.
        loop.whenTurnEnds { [self] in
            timer = nil
            // None if it was stopped meanwhile.
            let completion = completion
            self.completion = nil
            completion?(result)
        }
    }

    // MARK: - The request

    public override func began(on carrier: UpstreamCarrier) {
        let request = request
        let isWritten = carrier.writeHead(
            OutgoingRequest(.post, framing: request.framing), path: request.target.span, query: nil,
            authority: request.host.span
        ) { $0.append(request.fields) }
        guard isWritten else {
            cancel()
            return end(.failure(.tooLarge))
        }
        push(on: carrier)
    }

    private func push(on carrier: UpstreamCarrier) {
        let content = request.content
        sent += carrier.write(prefixOf: content.span.extracting(sent...))
        carrier.send(isComplete: sent == content.count)
    }

    public override func requestSpaceAvailable() {
        if let carrier { push(on: carrier) }
    }

    // MARK: - The answer

    public override var method: Method? { .post }

    public override func responseHead(_ head: ResponseHead, _ bytes: Span<UInt8>) {
        answer.status = head.status
        let name = Array("retry-after".utf8)
        for field in head.fields where field.nameRange.of(bytes).equals(lowercase: name) {
            answer.retryAfter = Self.seconds(field.valueRange.of(bytes))
        }
    }

    /// A decimal number of at most nine digits.
    private static func seconds(_ value: Span<UInt8>) -> Int64? {
        guard (1...9).contains(value.count) else { return nil }
        var seconds: Int64 = 0
        for index in value.indices {
            guard (0x30...0x39).contains(value[index]) else { return nil }
            seconds = seconds * 10 + Int64(value[index] - 0x30)
        }
        return seconds
    }

    public override func responseContent(_ content: Span<UInt8>) -> Int {
        guard answer.content.count + content.count <= contentLimit else {
            cancel()
            end(.failure(.contentTooLarge(status: answer.status)))
            return content.count
        }
        for index in content.indices { answer.content.append(content[index]) }
        return content.count
    }

    public override func responseEnded() { end(.success(answer)) }

    public override func failed(_ failure: UpstreamFailure, again: Repetition) {
        guard again != .never, maySendAgain else { return end(.failure(.upstream(failure))) }
        maySendAgain = false
        begin(again: true)
    }
}

/// A request of our own to a service, ready to be sent.
public struct OutboundRequest: Sendable {
    /// Path, and query if there is one.
    let target: [UInt8]
    let host: [UInt8]
    /// Lines.
    let fields: [UInt8]
    let content: [UInt8]

    var framing: ContentFraming { content.isEmpty ? .none : .length(UInt64(content.count)) }

    /// `POST`.
    ///
    /// - Parameters:
    ///   - target: path, and query if there is one.
    ///   - host: the value of Host.
    ///   - fields: names and values of further fields; nothing of them comes from anywhere a line end could slip in.
    public init(post target: String, host: String, fields: [(name: String, value: String)], content: [UInt8]) {
        var lines = "User-Agent: attestgate\r\n"
        for (name, value) in fields { lines += "\(name): \(value)\r\n" }
        precondition(
            (target + host + lines).utf8.count { $0 == 0x0a } == 1 + fields.count,
            "a value of an own request has a line end in it")
        self.target = Array(target.utf8)
        self.host = Array(host.utf8)
        self.fields = Array(lines.utf8)
        self.content = content
    }
}

/// What a service answered, whatever its status.
public struct OutboundAnswer: Equatable, Sendable {
    public internal(set) var status: UInt16 = 0
    /// Seconds; nil if it says none, or a date, which needs two clocks that agree.
    public internal(set) var retryAfter: Int64?
    public internal(set) var content: [UInt8] = []
}

/// Why there is no answer.
public enum OutboundFailure: Error, Equatable, Sendable {
    case upstream(UpstreamFailure)
    /// The request's head is larger than any that is sent.
    case tooLarge
    /// The answer has more content than was wanted. - status: of that answer.
    case contentTooLarge(status: UInt16)
    /// It took longer than was wanted, in all.
    case timeout

    /// For logs: one word, and text where it has more to say.
    public var reason: String {
        switch self {
        case .upstream(let failure): "\(failure.kind.name): \(failure.text)"
        case .tooLarge, .contentTooLarge: "too_large"
        case .timeout: "timeout"
        }
    }
}
