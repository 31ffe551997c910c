internal import Glibc

/// An end of a channel between two processes: a pair of sockets, with a datagram for each message.
public final class MessageChannel: SocketHandler {
    private let limit: Int
    private let received: (String?) -> Void

    /// - Parameters:
    ///   - socket: An end of a `pair`.
    ///   - limit: The maximum length of a message, in bytes.
    ///   - received: Called with each message, and last with nil when the other process has gone. A message that is too
    ///     long or not UTF-8 is received as an empty one.
    public init(loop: Loop, socket: consuming Socket, limit: Int, received: @escaping (String?) -> Void) {
        self.limit = limit
        self.received = received
        super.init(loop: loop, socket: socket)
        wantRead(true)
    }

    /// Returns two connected sockets, owned by the caller.
    public static func pair() throws(EventLoopError) -> (ours: Int32, theirs: Int32) {
        var ends: [Int32] = [-1, -1]
        let type = Int32(SOCK_SEQPACKET.rawValue) | Int32(SOCK_NONBLOCK.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
        guard socketpair(AF_UNIX, type, 0, &ends) == 0 else { throw .system(call: "socketpair", errno: errno) }
        return (ends[0], ends[1])
    }

    /// Sends a message.
    ///
    /// - Returns: Whether it was sent: not if it is too long, the socket is full, or the other process has gone.
    @discardableResult
    public func send(_ message: String) -> Bool {
        isOpen && message.utf8.count <= limit && Self.send(message, through: descriptor)
    }

    /// Sends a message through an end that has no object.
    @discardableResult
    public static func send(_ message: String, through descriptor: Int32) -> Bool {
        let bytes = Array(message.utf8)
        return Glibc.send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT)) == bytes.count
    }

    public override func readable() {
        var bytes = [UInt8](repeating: 0, count: limit + 1)
        let count = recv(descriptor, &bytes, bytes.count, Int32(MSG_DONTWAIT))
        if count < 0, errno == EAGAIN || errno == EINTR { return }
        guard count > 0 else {
            close()
            return received(nil)
        }
        received(count > limit ? "" : String(validating: bytes[..<count], as: UTF8.self) ?? "")
    }
}
