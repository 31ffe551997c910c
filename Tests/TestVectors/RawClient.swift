internal import Bytes
public import EventLoop

/// A client that sends the bytes it is given, and keeps what comes back until the other side closes.
public final class RawClient: SocketHandler {
    /// What has come, as text.
    public var received: String { String(decoding: bytes, as: UTF8.self) }
    public private(set) var bytes: [UInt8] = []
    /// Whether the other side has closed.
    public private(set) var isEnded = false
    private var outgoing: [UInt8] = []
    private var output: ByteBuffer
    private var input: ByteBuffer
    private var isDone: (RawClient) -> Bool = { $0.isEnded }

    public init(loop: Loop, socketPath: String) throws {
        let pool = BufferPool()
        output = ByteBuffer(pool: pool)
        input = ByteBuffer(pool: pool)
        super.init(loop: loop, socket: try Socket.connect(to: SocketAddress(unixPath: socketPath)))
        wantRead(true)
    }

    public func send(_ text: String) { send(Array(text.utf8)) }

    public func send(_ bytes: [UInt8]) {
        outgoing += bytes
        writable()
    }

    /// Serves the loop until the condition holds, the other side has closed, or half a minute has passed.
    ///
    /// - Returns: whether the condition holds.
    @discardableResult
    public func run(until isDone: @escaping (RawClient) -> Bool = { $0.isEnded }) -> Bool {
        self.isDone = isDone
        if isDone(self) { return true }
        var isOver = false
        let limit = LoopTimer(loop: loop, interval: .seconds(30)) { [unowned self] in
            isOver = true
            loop.stop()
        }
        // Other clients on the loop may stop it, too.
        withExtendedLifetime(limit) {
            while !isDone(self), !isEnded, !isOver { loop.run() }
        }
        return isDone(self)
    }

    /// Whether what comes is taken.
    public func pause(_ isPaused: Bool) { wantRead(!isPaused) }

    public override func writable() {
        while true {
            let taken = min(output.room, outgoing.count)
            output.append(Array(outgoing.prefix(taken)))
            outgoing.removeFirst(taken)
            guard !output.isEmpty, case .bytes = super.send(from: &output) else { break }
        }
        wantWrite(!output.isEmpty)
    }

    public override func readable() {
        switch receive(into: &input) {
        case .bytes:
            bytes += input.copy()
            input.removeAll()
        case .wouldBlock: break
        case .endOfStream, .failed:
            isEnded = true
            close()
        }
        if isEnded || isDone(self) { loop.stop() }
    }
}
