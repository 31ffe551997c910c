internal import EventLoop
internal import Glibc

/// The way between a gateway and the one that takes over from it: a pair of sockets, a datagram for each word.
final class UpgradeChannel: SocketHandler {
    enum Word: Equatable {
        /// By the parent of the new one, which is not ready yet: so it can be ended if it never is. - process: its number.
        case started(process: Int32)
        /// By the new one: everything is ready but what only one of them may have. - process: its number.
        case prepared(process: Int32)
        /// By the old one: it accepts no more, and has let go of the registry.
        case released
        /// By the new one: it serves.
        case serving
        /// By the new one, last: why it does not come to that.
        case failed(reason: String)
        /// By the old one: the service manager knows of the new one.
        case announced
        /// By the old one: nobody is to take over from it. Of one that is killed nothing is heard but its end, and then somebody is.
        case cancelled
        /// What no gateway says.
        case unknown
    }

    private let hear: (Word?) -> Void

    /// - Parameter hear: called with each word, and last with nil: the other one is gone.
    init(loop: Loop, socket: consuming Socket, hear: @escaping (Word?) -> Void) {
        self.hear = hear
        super.init(loop: loop, socket: socket)
        wantRead(true)
    }

    /// - Returns: one end for each of two.
    static func pair() throws(StartupError) -> (ours: Int32, theirs: Int32) {
        var ends: [Int32] = [-1, -1]
        let type = Int32(SOCK_SEQPACKET.rawValue) | Int32(SOCK_NONBLOCK.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
        guard socketpair(AF_UNIX, type, 0, &ends) == 0 else {
            throw StartupError("socketpair: \(EventLoopError.text(of: errno))")
        }
        return (ends[0], ends[1])
    }

    /// Of the longest reason, with its word before it; a conf file may have any number of faults.
    static let wordLimit = 4_096

    /// A word that cannot be sent is lost with the other process: `hear` then receives nil.
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

    /// No other number is a process's that has been started.
    private static func process(_ text: Substring) -> Int32? { Int32(text).flatMap { $0 > 1 ? $0 : nil } }
}
