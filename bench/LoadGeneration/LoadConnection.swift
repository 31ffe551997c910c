internal import Bytes
internal import EventLoop
internal import HTTP
internal import TLS

/// What became of one request.
enum Outcome {
    case answered(status: UInt16)
    case failed(Failure)
}

enum Handshake {
    case full
    case resumed
}

/// One connection slot of a run: opens connections, one after the other, and makes one request at a time.
///
/// Lives as long as its run; only the socket and the TLS stream come and go.
final class LoadConnection: SocketHandler {
    private enum State {
        case closed
        case connecting
        case handshaking
        /// Nothing is under way.
        case ready
        /// A request is being sent or answered.
        case busy
    }

    /// Position among the connections of the run.
    let index: Int
    /// When the request under way was due: where its latency begins.
    private(set) var due = Instant(nanoseconds: 0)
    /// Whether a request is under way, connecting included.
    private(set) var isBusy = false
    /// The handshake made for the request under way; nil if it went over an open connection.
    private(set) var handshake: Handshake?

    private unowned let run: LoadRun
    private let plan: LoadPlan
    private var state = State.closed
    private var stream: TLSStream?
    private var output: ByteBuffer
    private var input: ByteBuffer
    /// The bytes of the request under way, and its method.
    private var request: (bytes: [UInt8], method: Method)
    /// How much of the request is in `output` or sent.
    private var taken = 0
    private var parser = ResponseHeadParser(limits: .standard)
    private var head = ResponseHead()
    private var decoder: ContentDecoder?

    init(index: Int, run: LoadRun, plan: LoadPlan, pool: BufferPool) {
        self.index = index
        self.run = run
        self.plan = plan
        request = (plan.request.bytes, plan.request.method)
        output = ByteBuffer(pool: pool)
        input = ByteBuffer(pool: pool)
        super.init(loop: run.loop, socket: Socket(adopting: -1))
    }

    /// Makes one request, over the open connection if there is one.
    func begin(due: Instant, now: Instant) {
        self.due = due
        isBusy = true
        taken = 0
        handshake = nil
        do { request = try run.request(for: self) } catch { return fail(.proof, "\(error)") }
        if state == .closed {
            do { try connect() } catch { return fail(.connect, "\(error)") }
            setDeadline(now + plan.timeout)
        } else {
            setDeadline(now + plan.timeout)
            state = .busy
            send()
        }
    }

    /// Ends the connection without a word about the request under way.
    func shut() {
        // Without close_notify OpenSSL takes the session for broken and would not offer it again.
        stream?.sendCloseNotify()
        stream = nil
        close()
        state = .closed
        isBusy = false
        output.removeAll()
        input.removeAll()
        parser.reset()
        decoder = nil
    }

    private func connect() throws(EventLoopError) {
        replaceSocket(try Socket.connect(to: plan.address))
        state = .connecting
        wantWrite(true)
    }

    private func fail(_ kind: FailureKind, _ reason: String) {
        shut()
        run.finished(self, .failed(Failure(kind: kind, reason: reason)))
    }

    // MARK: - Events

    override func writable() {
        switch state {
        case .connecting:
            let error = pendingError
            guard error == 0 else { return fail(.connect, "errno \(error)") }
            stream = TLSStream(connecting: descriptor, to: run.destination(for: self))
            guard stream != nil else { return fail(.tls, "no TLS connection could be made") }
            state = .handshaking
            advanceHandshake()
        case .handshaking: advanceHandshake()
        case .busy: send()
        case .ready, .closed: wantWrite(false)
        }
    }

    override func readable() {
        if state == .handshaking { advanceHandshake() } else { receive() }
    }

    override func deadlinePassed() {
        if isBusy { fail(.timeout, "no complete response in time") }
    }

    // MARK: - Steps

    private func advanceHandshake() {
        guard let step = stream?.handshake() else { return }
        switch step {
        case .done:
            handshake = stream?.isResumed == true ? .resumed : .full
            wantRead(true)
            state = .busy
            send()
        case .wantRead:
            wantWrite(false)
            wantRead(true)
        case .wantWrite: wantWrite(true)
        case .endOfStream: fail(.disconnected, "closed during the handshake")
        case .failed(let failure): fail(failure)
        }
    }

    private func send() {
        let request = request.bytes
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

    private func receive() {
        while true {
            guard let step = stream?.read(into: &input) else { return }
            switch step {
            case .done(let count):
                run.tally.bytes += count
                // A finished request may have led to the next one, on another connection even.
                guard isBusy ? takeResponse() : refuseUnasked() else { return }
            case .wantRead: return input.releaseIfEmpty()
            case .wantWrite: return wantWrite(true)
            case .endOfStream: return ended("closed by the peer")
            case .failed(.disconnected): return ended("cut by the peer")
            case .failed(let failure): return isBusy ? fail(failure) : ended("\(failure)")
            }
        }
    }

    private func ended(_ reason: String) {
        if isBusy, let decoder, decoder.endsWithConnection { return complete() }
        if isBusy { return fail(.disconnected, reason) }
        shut()
        run.closedWhileIdle(self, reason)
    }

    /// - Returns: whether more of the response is to be read.
    private func takeResponse() -> Bool {
        do {
            while true {
                if decoder == nil {
                    let progress = try parser.parse(
                        input.readable, answering: request.method, into: &head)
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
            run.received(challenge: text, status: head.status, by: self)
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
        let isSent = taken == request.bytes.count && output.isEmpty
        let keeps = head.isPersistent && isSent && input.isEmpty && !plan.mode.closesAfterResponse
        decoder = nil
        if keeps {
            isBusy = false
            state = .ready
            clearDeadline()
            input.releaseIfEmpty()
        } else {
            shut()
        }
        run.finished(self, .answered(status: status))
    }

    private func fail(_ failure: TLSFailure) {
        switch failure {
        case .disconnected: fail(.disconnected, "cut by the peer")
        case .tls(let reason): fail(.tls, reason)
        case .clientCertificate(let fault): fail(.tls, "\(fault)")
        }
    }
}
