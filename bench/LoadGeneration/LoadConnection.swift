internal import Bytes
internal import EventLoop
internal import TLS

/// One connection slot of a run: opens connections, one after the other, for its callers. How requests are written and answers
/// read is its subclass's.
///
/// Lives as long as its run; only the socket and the TLS stream come and go.
class LoadConnection: SocketHandler {
    enum State {
        case closed
        case connecting
        case handshaking
        case open
    }

    /// Position among the connections of the run.
    final let index: Int
    final unowned let run: LoadRun
    final let plan: LoadPlan
    /// Those who make requests over it: it owns them.
    final private(set) var callers: [LoadCaller] = []
    final private(set) var state = State.closed
    final private(set) var stream: TLSStream?
    final var output: ByteBuffer

    required init(index: Int, run: LoadRun, plan: LoadPlan, pool: BufferPool) {
        self.index = index
        self.run = run
        self.plan = plan
        output = ByteBuffer(pool: pool)
        super.init(loop: run.loop, socket: Socket(adopting: -1))
    }

    final func add(_ caller: LoadCaller) { callers.append(caller) }

    // MARK: - For subclasses to override

    /// A caller has a request to make.
    func begin(_ caller: LoadCaller, now: Instant) {}
    /// The connection is open.
    func opened(_ handshake: Handshake) {}
    /// There may be room to write.
    func send() {}
    /// There may be bytes to read.
    func receive() {}
    /// The connection has ended, or never came about; it is shut.
    func failed(_ failure: Failure) {}
    /// The connection is being shut.
    func forget() {}

    // MARK: - Opening and shutting

    final func connect() {
        do {
            replaceSocket(try Socket.connect(to: plan.address))
        } catch {
            return fail(.connect, "\(error)")
        }
        state = .connecting
        wantWrite(true)
    }

    /// Ends the connection without a word about what is under way.
    final func shut() {
        // Without close_notify OpenSSL takes the session for broken and would not offer it again.
        stream?.sendCloseNotify()
        stream = nil
        close()
        clearDeadline()
        state = .closed
        output.removeAll()
        forget()
    }

    final func fail(_ kind: FailureKind, _ reason: String) {
        shut()
        failed(Failure(kind: kind, reason: reason))
    }

    final func fail(_ failure: TLSFailure) {
        switch failure {
        case .disconnected: fail(.disconnected, "cut by the peer")
        case .tls(let reason): fail(.tls, reason)
        case .clientCertificate(let fault): fail(.tls, "\(fault)")
        }
    }

    private func advanceHandshake() {
        guard let step = stream?.handshake() else { return }
        switch step {
        case .done:
            guard let stream, stream.hasAgreedOnHTTP2 == (plan.version == .http2) else {
                return fail(.tls, "the server does not speak \(plan.version.name)")
            }
            wantRead(true)
            wantWrite(false)
            state = .open
            opened(stream.isResumed ? .resumed : .full)
        case .wantRead:
            wantWrite(false)
            wantRead(true)
        case .wantWrite: wantWrite(true)
        case .endOfStream: fail(.disconnected, "closed during the handshake")
        case .failed(let failure): fail(failure)
        }
    }

    // MARK: - Events

    final override func writable() {
        switch state {
        case .connecting:
            let error = pendingError
            guard error == 0 else { return fail(.connect, "errno \(error)") }
            stream = TLSStream(connecting: descriptor, to: run.destination(for: self))
            guard stream != nil else { return fail(.tls, "no TLS connection could be made") }
            state = .handshaking
            advanceHandshake()
        case .handshaking: advanceHandshake()
        case .open: send()
        case .closed: wantWrite(false)
        }
    }

    final override func readable() {
        if state == .handshaking { advanceHandshake() } else { receive() }
    }
}
