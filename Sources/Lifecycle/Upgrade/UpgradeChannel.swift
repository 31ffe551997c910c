internal import EventLoop
internal import Glibc

/// The channel between a gateway and the process that takes over: a pair of sockets, with a datagram per message.
final class UpgradeChannel: SocketHandler {
    enum Word: Equatable {
        /// From the parent of the new process, before that is ready, so that it can be ended. - process: its id.
        case started(process: Int32)
        /// From the new process: everything is ready except what only one process may have. - process: its id.
        case prepared(process: Int32)
        /// From the old process: it accepts no more, and has released the registry.
        case released
        /// From the new process: it serves.
        case serving
        /// From the new process, last: why it will not serve.
        case failed(reason: String)
        /// From the old process: the service manager was notified of the new process.
        case announced
        /// From the old process: the upgrade is cancelled. If the old process is killed, the new one only notices the
        /// closed channel and takes over.
        case cancelled
        /// Not a message of a gateway.
        case unknown
    }

    private let hear: (Word?) -> Void

    /// Creates an end of the channel.
    ///
    /// - Parameter hear: Called with each message, and last with nil when the other process has gone.
    init(loop: Loop, socket: consuming Socket, hear: @escaping (Word?) -> Void) {
        self.hear = hear
        super.init(loop: loop, socket: socket)
        wantRead(true)
    }

    /// Returns two connected sockets.
    static func pair() throws(StartupError) -> (ours: Int32, theirs: Int32) {
        var ends: [Int32] = [-1, -1]
        let type = Int32(SOCK_SEQPACKET.rawValue) | Int32(SOCK_NONBLOCK.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
        guard socketpair(AF_UNIX, type, 0, &ends) == 0 else {
            throw StartupError("socketpair: \(EventLoopError.text(of: errno))")
        }
        return (ends[0], ends[1])
    }

    /// The maximum length of a message with a reason: a conf file may have any number of faults.
    private static let wordLimit = 4_096

    /// Sends a message. If it cannot be sent, the other process has gone, and `hear` receives nil.
    func tell(_ word: Word) { Self.tell(word, through: descriptor) }

    static func tell(_ word: Word, through descriptor: Int32) {
        let bytes = Array(word.text.utf8.prefix(wordLimit))
        _ = Glibc.send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL))
    }

    override func readable() {
        var bytes = [UInt8](repeating: 0, count: Self.wordLimit)
        let count = recv(descriptor, &bytes, bytes.count, 0)
        if count < 0, errno == EAGAIN || errno == EINTR { return }
        guard count > 0 else {
            close()
            return hear(nil)
        }
        hear(Word(String(decoding: bytes[..<count], as: UTF8.self)))
    }
}

extension UpgradeChannel.Word {
    var text: String {
        switch self {
        case .started(let process): "started \(process)"
        case .prepared(let process): "prepared \(process)"
        case .released: "released"
        case .serving: "serving"
        case .failed(let reason): "failed \(reason)"
        case .announced: "announced"
        case .cancelled: "cancelled"
        case .unknown: ""
        }
    }

    init(_ text: String) {
        let words = text.split(separator: " ")
        switch (words.first, words.count) {
        case ("failed", 2...): self = .failed(reason: String(text.dropFirst("failed ".count)))
        case ("started", 2): self = Self.process(words[1]).map { .started(process: $0) } ?? .unknown
        case ("prepared", 2): self = Self.process(words[1]).map { .prepared(process: $0) } ?? .unknown
        case ("released", 1): self = .released
        case ("serving", 1): self = .serving
        case ("announced", 1): self = .announced
        case ("cancelled", 1): self = .cancelled
        default: self = .unknown
        }
    }

    /// No other number can be that of a started process.
    private static func process(_ text: Substring) -> Int32? { Int32(text).flatMap { $0 > 1 ? $0 : nil } }
}
