internal import EventLoop
internal import Glibc

/// An upgrade, seen by the process that takes over from a predecessor.
final class Takeover {
    private enum Phase {
        /// There is no predecessor, or the hand-over is complete.
        case none
        /// Everything is ready except what only one process may have.
        case waiting(UpgradeChannel)
        /// The predecessor accepts no more; this process begins to serve.
        case released(UpgradeChannel)
        /// The predecessor knows that this process serves.
        case serving(UpgradeChannel)

        var channel: UpgradeChannel? {
            switch self {
            case .none: nil
            case .waiting(let channel), .released(let channel), .serving(let channel): channel
            }
        }
    }

    private var phase = Phase.none
    private let descriptor: Int32?
    private let loop: Loop
    /// Called when the service manager watches this process.
    var onAnnounced: () -> Void = {}
    /// Called when the predecessor continues to serve, or ends in order, before this process serves.
    var onCancelled: () -> Void = {}

    /// - Parameter descriptor: The channel to the predecessor; nil if there is none.
    init(_ descriptor: Int32?, loop: Loop) {
        self.descriptor = descriptor
        self.loop = loop
    }

    /// Whether the service manager still watches the predecessor.
    var isPending: Bool { phase.channel != nil }

    /// Announces that everything is ready, and waits until the other process has stopped accepting and has released
    /// the registry. Clients that connect meanwhile wait in the sockets' queues. Returns early if the loop is stopped.
    ///
    /// - Returns: Whether the other process, running, has released what it had open.
    func awaitRelease() -> Bool {
        guard let descriptor else { return false }
        var isReleased = false
        let channel = UpgradeChannel(loop: loop, socket: Socket(adopting: descriptor)) { [unowned self] word in
            // Later messages arrive while this process serves.
            if case .waiting = phase { loop.stop() }
            switch word {
            case .released: isReleased = true
            // It has ended, and its locks are free, or soon will be.
            case nil, .announced: announced()
            // Without this message its end would look like a crash, and this process would take over.
            case .cancelled: if case .waiting = phase { onCancelled() }
            case .started, .prepared, .serving, .failed, .unknown: break
            }
        }
        phase = .waiting(channel)
        channel.tell(.prepared(process: getpid()))
        loop.run()
        if isPending { phase = .released(channel) }
        return isReleased
    }

    /// Reports to the predecessor, once, that every thread serves.
    func serves() {
        guard case .released(let channel) = phase else { return }
        phase = .serving(channel)
        channel.tell(.serving)
    }

    /// Reports to the predecessor why this process will not serve.
    func failed(_ reason: String) { phase.channel?.tell(.failed(reason: reason)) }

    private func announced() {
        guard let channel = phase.channel else { return }
        phase = .none
        // The channel is handling an event.
        loop.whenTurnEnds { channel.close() }
        onAnnounced()
    }
}
