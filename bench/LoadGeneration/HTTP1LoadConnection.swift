internal import Bytes
internal import EventLoop
internal import HTTP
internal import TLS

/// A connection of HTTP/1.1: its one caller makes one request at a time.
final class HTTP1LoadConnection: LoadConnection {
    private var input: ByteBuffer
    /// Whose request is being sent or answered.
    private var caller: LoadCaller?
    /// The bytes of the request under way.
    private var request: [UInt8] = []
    private var method = Method.get
    /// How much of the request is in `output` or sent.
    private var taken = 0
    private var parser = ResponseHeadParser(limits: .standard)
    private var head = ResponseHead()
    private var decoder: ContentDecoder?

    required init(index: Int, run: LoadRun, plan: LoadPlan, pool: BufferPool) {
        input = ByteBuffer(pool: pool)
        super.init(index: index, run: run, plan: plan, pool: pool)
    }

    override func begin(_ caller: LoadCaller, now: Instant) {
        precondition(self.caller == nil, "one request at a time")
        self.caller = caller
        taken = 0
        do { caller.began(try run.request(for: caller), end: now + plan.timeout) } catch {
            return fail(.proof, "\(error)")
        }
        request = caller.request.bytes
        method = caller.request.method
        if state == .closed {
            connect()
            // Not before: the socket is another one now.
            if state != .closed { setDeadline(caller.end) }
        } else {
            setDeadline(caller.end)
            send()
        }
    }

    override func opened(_ handshake: Handshake) {
        caller?.handshake = handshake
        send()
    }

    override func forget() {
        input.removeAll()
        parser.reset()
        decoder = nil
    }

    override func failed(_ failure: Failure) {
        finish(.failed(failure))
    }

    private func finish(_ outcome: Outcome) {
        guard let caller else { return }
        self.caller = nil
        caller.ended()
        run.finished(caller, outcome)
    }

    override func deadlinePassed() {
        if caller != nil { fail(.timeout, "no complete response in time") }
    }

    // MARK: - Steps

    override func send() {
        while taken < request.count || !output.isEmpty {
            if taken < request.count { taken += output.appendPrefix(of: request.span.extracting(taken...)) }
            guard let step = stream?.write(from: &output) else { return }
            switch step {
            case .done: continue
            case .wantWrite: return wantWrite(true)
            // The peer refused the connection before it read the request: its reason is yet to be read.
            case .wantRead: return wantWrite(false)
            case .endOfStream: return fail(.disconnected, "closed while the request was sent")
            case .failed(let failure): return fail(failure)
            }
        }
        output.releaseIfEmpty()
        wantWrite(false)
    }

    override func receive() {
        while true {
            guard let step = stream?.read(into: &input) else { return }
            switch step {
            case .done(let count):
                run.tally.bytes += count
                // A finished request may have led to the next one, on another connection even.
                guard caller != nil ? takeResponse() : refuseUnasked() else { return }
            case .wantRead: return input.releaseIfEmpty()
            case .wantWrite: return wantWrite(true)
            case .endOfStream: return ended("closed by the peer")
            case .failed(.disconnected): return ended("cut by the peer")
            case .failed(let failure): return caller != nil ? fail(failure) : ended("\(failure)")
            }
        }
    }

    private func ended(_ reason: String) {
        if caller != nil, let decoder, decoder.endsWithConnection { return complete() }
        if caller != nil { return fail(.disconnected, reason) }
        shut()
        run.closedWhileIdle(self, reason)
    }

    /// - Returns: whether more of the response is to be read.
    private func takeResponse() -> Bool {
        do {
            while true {
                if decoder == nil {
                    let progress = try parser.parse(
                        input.readable, answering: method, into: &head)
                    guard case .complete(let length) = progress else { return true }
                    takeChallenge()
                    input.consume(length)
                    if head.isInterim { continue }
                    decoder = ContentDecoder(head.framing, extensions: .ignored)
                }
                switch try decoder?.next(input.readable) {
                case .needMore, nil: return true
                case .framing(let count): input.consume(count)
                case .content(let count):
                    input.consume(count)
                    decoder?.consumed(count)
                case .end:
                    complete()
                    return false
                }
            }
        } catch {
            fail(.malformed, String(describing: error.reason))
            return false
        }
    }

    /// Any response may bring a challenge. The head is still in `input`.
    private func takeChallenge() {
        guard plan.mode == .attested else { return }
        for field in head.fields where field.name == .acceptSignature {
            var value: [UInt8] = []
            let range = field.valueRange
            for index in range.start..<range.end { value.append(input.readable[index]) }
            let text = String(decoding: value, as: UTF8.self)
            run.received(challenge: text, status: head.status, over: self)
        }
    }

    private func refuseUnasked() -> Bool {
        shut()
        run.closedWhileIdle(self, "the peer sent what nobody asked for")
        return false
    }

    private func complete() {
        let status = head.status
        // A server may answer before it has read the whole request; the rest is not sent then.
        let isSent = taken == request.count && output.isEmpty
        let keeps = head.isPersistent && isSent && input.isEmpty && !plan.mode.closesAfterResponse
        decoder = nil
        if keeps {
            clearDeadline()
            input.releaseIfEmpty()
        } else {
            shut()
        }
        finish(.answered(status: status))
    }
}
