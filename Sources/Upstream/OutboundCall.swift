public import EventLoop
public import HTTP

/// One request of the gateway itself to a service. The response is delivered whole, within a time limit and with
/// limited content.
///
/// Redirects are ordinary responses, since the request is meant for this service alone. If a kept connection ends
/// without a response, the request is sent once more on a new one, if it is repeatable.
///
/// ```
///                  answer, failure           end of the turn
/// running(timer) ------------------> ended ------------------> stopped
///       +------------------------ stop -----------------------^
/// ```
public final class OutboundCall: UpstreamCall {
    public typealias Completion = (Result<OutboundAnswer, OutboundFailure>) -> Void

    private enum State {
        /// The timer is nil before the start.
        case running(Completion, LoopTimer?)
        /// The completion is called at the end of the turn.
        case ended(Completion, LoopTimer?)
        case stopped
    }

    private struct Attempt {
        var answer = OutboundAnswer()
        /// The number of bytes of the request's content that have been written.
        var sent = 0
    }

    private let pool: UpstreamPool
    private let loop: Loop
    private let request: OutboundRequest
    private let contentLimit: Int
    private var state: State
    private var attempt = Attempt()
    private var maySendAgain: Bool

    /// Creates a call.
    ///
    /// - Parameters:
    ///   - contentLimit: the maximum content of the response, in bytes.
    ///   - isRepeatable: whether the service may get the request twice.
    ///   - completion: called once, on the loop's thread and never from within `start`. Not called after `stop`.
    public init(
        _ request: OutboundRequest, on pool: UpstreamPool, loop: Loop, contentLimit: Int = 64 << 10,
        isRepeatable: Bool, completion: @escaping Completion
    ) {
        self.pool = pool
        self.loop = loop
        self.request = request
        self.contentLimit = contentLimit
        maySendAgain = isRepeatable
        state = .running(completion, nil)
    }

    /// Starts the call.
    ///
    /// - Parameter timeout: the time for the whole call, including the wait for a connection.
    public func start(timeout: TimeSpan) {
        guard case .running(let completion, _) = state else { return }
        let timer = LoopTimer(loop: loop, interval: timeout) { [unowned self] in
            cancel()
            end(.failure(.timeout))
        }
        state = .running(completion, timer)
        begin(again: false)
    }

    /// Cancels the call without calling its completion.
    public func stop() {
        state = .stopped
        cancel()
    }

    private func begin(again: Bool) {
        attempt = Attempt()
        do throws(UpstreamFailure) {
            let carrier = try again ? pool.startAgain(self) : pool.start(self, for: 0)
            if let carrier { began(on: carrier) }
        } catch {
            end(.failure(.upstream(error)))
        }
    }

    /// Calls the completion at the end of the turn, outside of any other event, since it may start or end other calls.
    private func end(_ result: Result<OutboundAnswer, OutboundFailure>) {
        guard case .running(let completion, let timer) = state else { return }
        state = .ended(completion, timer)
        // Retains this object until then.
        loop.whenTurnEnds { [self] in
            // The call may have been stopped meanwhile.
            guard case .ended(let completion, _) = state else { return }
            state = .stopped
            completion(result)
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
        attempt.sent += carrier.write(prefixOf: content.span.extracting(attempt.sent...))
        carrier.send(isComplete: attempt.sent == content.count)
    }

    public override func requestSpaceAvailable() {
        if let carrier { push(on: carrier) }
    }

    // MARK: - The response

    public override var method: Method? { .post }

    public override func responseHead(_ head: ResponseHead, _ bytes: Span<UInt8>) {
        attempt.answer.status = head.status
        let name = Array("retry-after".utf8)
        for field in head.fields where field.nameRange.of(bytes).equals(lowercase: name) {
            attempt.answer.retryAfter = Self.seconds(field.valueRange.of(bytes))
        }
    }

    /// Returns a decimal number of at most nine digits.
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
        guard attempt.answer.content.count + content.count <= contentLimit else {
            cancel()
            end(.failure(.contentTooLarge(status: attempt.answer.status)))
            return content.count
        }
        for index in content.indices { attempt.answer.content.append(content[index]) }
        return content.count
    }

    public override func responseEnded() { end(.success(attempt.answer)) }

    public override func failed(_ failure: UpstreamFailure, again: Repetition) {
        guard again != .never, maySendAgain else { return end(.failure(.upstream(failure))) }
        maySendAgain = false
        begin(again: true)
    }
}

/// An encoded request of the gateway itself to a service.
public struct OutboundRequest: Sendable {
    /// The path and the optional query.
    let target: [UInt8]
    let host: [UInt8]
    /// The fields as lines.
    let fields: [UInt8]
    let content: [UInt8]

    var framing: ContentFraming { content.isEmpty ? .none : .length(UInt64(content.count)) }

    /// Creates a POST request.
    ///
    /// - Parameters:
    ///   - target: the path and the optional query.
    ///   - host: the value of Host.
    ///   - fields: names and values of further fields. They come from sources that contain no line ends.
    ///   - content: the content.
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

/// The response of a service, with any status.
public struct OutboundAnswer: Equatable, Sendable {
    public internal(set) var status: UInt16 = 0
    /// The value of Retry-After in seconds. Nil if it is missing, or a date, which needs synchronised clocks.
    public internal(set) var retryAfter: Int64?
    public internal(set) var content: [UInt8] = []
}

/// The reason why there is no response.
public enum OutboundFailure: Error, Equatable, Sendable {
    case upstream(UpstreamFailure)
    /// The request's head exceeds the buffer.
    case tooLarge
    /// The response has more content than accepted. `status` is that of the response.
    case contentTooLarge(status: UInt16)
    /// The call exceeded its time.
    case timeout

    /// The reason for logs: one word, and text where there is more.
    public var reason: String {
        switch self {
        case .upstream(let failure): "\(failure.kind.name): \(failure.text)"
        case .tooLarge, .contentTooLarge: "too_large"
        case .timeout: "timeout"
        }
    }
}
