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
    private var teller: LoopTimer?
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

    /// Gives it up; nobody is told.
    public func stop() {
        completion = nil
        timer = nil
        teller = nil
        cancel()
    }

    private func begin(again: Bool) {
        sent = 0
        answer = OutboundAnswer()
        do throws(UpstreamFailure) {
            let connection = try again ? pool.startAgain(self) : pool.start(self, for: 0)
            if let connection { push(on: connection) }
        } catch {
            end(.failure(.upstream(error)))
        }
    }

    /// In an event of its own: whoever hears of it may start another call, or end all of them.
    private func end(_ result: Result<OutboundAnswer, OutboundFailure>) {
        guard let completion else { return }
        self.completion = nil
        // Keeps this object until then.
        teller = LoopTimer(loop: loop, startsIn: TimeSpan(nanoseconds: 0)) { [self] in
            timer = nil
            teller = nil
            completion(result)
        }
    }

    // MARK: - The request

    private func push(on connection: UpstreamConnection) {
        let bytes = request.bytes
        let count = min(connection.output.room, bytes.count - sent)
        connection.output.append(bytes.span.extracting(sent..<(sent + count)))
        sent += count
        connection.send(isComplete: sent == bytes.count)
    }

    public override func began(on connection: UpstreamConnection) { push(on: connection) }

    public override func requestSpaceAvailable() {
        if let connection { push(on: connection) }
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
            end(.failure(.tooLarge))
            return content.count
        }
        for index in content.indices { answer.content.append(content[index]) }
        return content.count
    }

    public override func responseEnded() { end(.success(answer)) }

    public override func failed(_ failure: UpstreamFailure, isUnanswered: Bool) {
        guard isUnanswered, maySendAgain else { return end(.failure(.upstream(failure))) }
        maySendAgain = false
        begin(again: true)
    }
}
