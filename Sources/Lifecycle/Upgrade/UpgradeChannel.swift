internal import EventLoop

/// The channel between a gateway and the process that takes over.
final class UpgradeChannel {
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

    private let channel: MessageChannel

    /// Creates an end of the channel.
    ///
    /// - Parameter heard: Called with each message, and last with nil when the other process has gone.
    init(loop: Loop, socket: consuming Socket, heard: @escaping (Word?) -> Void) {
        channel = MessageChannel(loop: loop, socket: socket, limit: Self.limit) { heard($0.map(Word.init)) }
    }

    /// Two connected sockets.
    static func pair() throws(StartupError) -> (ours: Int32, theirs: Int32) {
        do throws(EventLoopError) { return try MessageChannel.pair() } catch { throw StartupError(error.text) }
    }

    /// The maximum length of a message, in bytes. A conf file may have any number of faults, so a reason is cut.
    private static let limit = 4_096

    var isOpen: Bool { channel.isOpen }

    func close() { channel.close() }

    /// Sends a message. If it cannot be sent, the other process has gone, and `heard` receives nil.
    func tell(_ word: Word) { channel.send(Self.cut(word)) }

    static func tell(_ word: Word, through descriptor: Int32) {
        MessageChannel.send(cut(word), through: descriptor)
    }

    private static func cut(_ word: Word) -> String {
        String(decoding: word.text.utf8.prefix(limit - 2), as: UTF8.self)
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
