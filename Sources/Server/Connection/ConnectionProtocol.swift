/// What is spoken on a client connection, once nothing more is to be settled about who the client is.
///
/// The connection moves bytes and knows the client; a protocol takes the bytes from the connection's `input`, leaves what it
/// says in its `output`, and decides about time and end. It writes to no socket. The connection owns it from the end of the
/// handshake until it closes.
class ConnectionProtocol {
    /// The owner. It lets go of the protocol when it closes, which ends the cycle.
    final let connection: ServerConnection
    /// What has come is not taken: nothing more is read.
    final var isInputHeld = false

    init(on connection: ServerConnection) {
        self.connection = connection
    }

    /// The connection is the protocol's from now on; nothing has been read.
    func began() {}
    /// Nothing is under way that the connection's end would cut off.
    var isIdle: Bool { false }
    /// Whether to read, though there may be bytes in `input` that nobody has taken.
    var wantsInput: Bool { true }
    /// Bytes of memory that the protocol and its requests hold, beside the connection's own buffers.
    var footprint: Int { 0 }
    /// Nothing more is to be begun: what is under way is the last.
    func drain() {
        if isIdle { connection.closeGracefully() }
    }
    /// The same, but with time for what the client may be sending right now: it is the last, and still served.
    func windUp() { drain() }
    /// Whether all that has come is decided, and nothing more is begun.
    var isDecided: Bool { false }
    /// Takes in what has been read, as far as that is possible now.
    func advance() {}
    /// The kernel has taken all of `output`, these octets last: there is room for more.
    func outputTaken(_ octets: Int) {}
    /// The kernel has taken these octets of `output`, and takes no more for now.
    func outputBlocked(taken octets: Int) {}
    /// Nothing is left to be written: what follows? - Returns: whether there may be more to do at once.
    func conclude() -> Bool { false }
    /// Nothing more will come from the client.
    ///
    /// - Parameter isOrderly: whether the client has said so, and the connection is not just broken.
    func inputEnded(isOrderly: Bool) {}
    /// The connection's deadline has passed.
    func deadlinePassed() {}
    /// The connection is closed. Nothing is called any more.
    func closed() {}
}
