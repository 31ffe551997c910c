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
            OutgoingRequest(request.method, framing: request.framing), path: request.target.span, query: nil,
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

    public override var method: Method? { request.method }

    public override func responseHead(_ head: ResponseHead, _ bytes: Span<UInt8>) {
        attempt.answer.status = head.status
        let retryAfter = Array("retry-after".utf8)
        for field in head.fields {
            guard let value = OutboundAnswer.text(field.valueRange.of(bytes)) else { continue }
            switch field.name {
            case .etag: attempt.answer.validators.entityTag = value
            case .lastModified: attempt.answer.validators.lastModified = value
            case .contentType: attempt.answer.contentType = value
            case .cacheControl: attempt.answer.maxAge = OutboundAnswer.maxAge(inCacheControl: value)
            case .other where field.nameRange.of(bytes).equals(lowercase: retryAfter):
                attempt.answer.retryAfter = OutboundAnswer.seconds(value)
            default: break
            }
        }
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
    let method: Method
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
        self.init(.post, target, host, fields, content)
    }

    /// Creates a GET request.
    ///
    /// - Parameters:
    ///   - target: the path and the optional query.
    ///   - host: the value of Host.
    ///   - fields: names and values of further fields. They come from sources that contain no line ends.
    public init(get target: String, host: String, fields: [(name: String, value: String)]) {
        self.init(.get, target, host, fields, [])
    }

    private init(
        _ method: Method, _ target: String, _ host: String, _ fields: [(name: String, value: String)],
        _ content: [UInt8]
    ) {
        var lines = "User-Agent: attestgate\r\n"
        for (name, value) in fields { lines += "\(name): \(value)\r\n" }
        precondition(
            (target + host + lines).utf8.count { $0 == 0x0a } == 1 + fields.count,
            "a value of an own request has a line end in it")
        self.method = method
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
    /// The validators of the content, for a conditional request later.
    public internal(set) var validators = ContentValidators()
    /// `max-age` of Cache-Control in seconds. Nil if it is missing, or the response must not be stored.
    public internal(set) var maxAge: Int64?
    /// The value of Content-Type. Nil if it is missing, or too long to be one.
    public internal(set) var contentType: String?
    public internal(set) var content: [UInt8] = []

    /// Returns a field's value of printable ASCII. Nil for longer ones than services send.
    fileprivate static func text(_ value: Span<UInt8>) -> String? {
        guard (1...512).contains(value.count) else { return nil }
        var bytes: [UInt8] = []
        for index in value.indices {
            guard (0x20...0x7e).contains(value[index]) else { return nil }
            bytes.append(value[index])
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Returns a decimal number of at most nine digits.
    static func seconds(_ value: some StringProtocol) -> Int64? {
        guard (1...9).contains(value.utf8.count), value.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else {
            return nil
        }
        return Int64(value)
    }

    /// Returns the freshness lifetime in a value of Cache-Control (RFC 9111 section 5.2.2).
    static func maxAge(inCacheControl value: String) -> Int64? {
        let directives = value.lowercased().split(separator: ",").map { $0.drop { $0 == " " } }
        guard !directives.contains(where: { $0.hasPrefix("no-store") || $0.hasPrefix("no-cache") }) else { return nil }
        let name = "max-age="
        guard let directive = directives.first(where: { $0.hasPrefix(name) }) else { return nil }
        return seconds(directive.dropFirst(name.count).filter { $0 != "\"" && $0 != " " })
    }
}

/// What identifies the state of a service's content (RFC 9110 section 8.8).
public struct ContentValidators: Equatable, Sendable {
    /// The value of ETag.
    public internal(set) var entityTag: String?
    /// The value of Last-Modified.
    public internal(set) var lastModified: String?

    public init(entityTag: String? = nil, lastModified: String? = nil) {
        self.entityTag = entityTag
        self.lastModified = lastModified
    }

    /// The fields that request the content only if it has changed.
    public var conditions: [(name: String, value: String)] {
        let conditions = [("If-None-Match", entityTag), ("If-Modified-Since", lastModified)]
        return conditions.compactMap { name, value in value.map { (name, $0) } }
    }
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
