/// The application protocol of a client connection after its handshake.
///
/// The connection moves bytes and knows the client. A protocol takes bytes from the connection's `input`, appends to
/// its `output`, and decides about deadlines and the end. It does not write to sockets. The connection owns it from
/// the end of the handshake until it closes.
class ConnectionProtocol {
    /// The owner. It releases the protocol when it closes, which breaks the reference cycle.
    final let connection: ServerConnection
    /// Whether received bytes are not taken at present: nothing more is read.
    final var isInputHeld = false

    init(on connection: ServerConnection) {
        self.connection = connection
    }

    /// Called when the protocol takes over the connection; nothing has been read.
    func began() {}
    /// Whether no request is in flight.
    var isIdle: Bool { false }
    /// Whether to read although `input` may hold bytes.
    var wantsInput: Bool { true }
    /// Bytes of memory that the protocol and its requests hold, without the connection's own buffers.
    var footprint: Int { 0 }
    /// Begins no more requests; those in flight are completed.
    func drain() {
        if isIdle { connection.closeGracefully() }
    }
    /// Drains, but still serves what the client may be sending right now.
    func windUp() { drain() }
    /// Whether every request received is decided, and none can begin.
    var isDecided: Bool { false }
    /// Processes what has been read, as far as possible.
    func advance() {}
    /// Called when the kernel has taken all of `output`, these bytes last.
    func outputTaken(_ bytes: Int) {}
    /// Called when the kernel has taken these bytes of `output` and takes no more for now.
    func outputBlocked(taken bytes: Int) {}
    /// Decides what follows when nothing is left to be written.
    ///
    /// - Returns: Whether there may be more to do immediately.
    func conclude() -> Bool { false }
    /// Called at the end of the client's input.
    ///
    /// - Parameter isOrderly: Whether the client has ended its side in order; false if the connection broke.
    func inputEnded(isOrderly: Bool) {}
    /// Called when the connection's deadline has passed.
    func deadlinePassed() {}
    /// Called last, when the connection is closed.
    func closed() {}
}
