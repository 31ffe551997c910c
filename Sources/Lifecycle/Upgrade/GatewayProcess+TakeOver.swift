internal import EventLoop
internal import Glibc

/// Taking over from another process: the other half of `GatewayProcess+Upgrade`.
extension GatewayProcess {
    /// Says that everything is ready, and waits until the other process has stopped accepting and has let go of the registry. Who
    /// connects meanwhile waits in the sockets' queues. Ends early if this process is told to stop.
    func awaitRelease() {
        guard let descriptor = inheritance.predecessor else { return }
        var isReleased = false
        let channel = UpgradeChannel(loop: loop, socket: Socket(adopting: descriptor)) { [unowned self] word in
            switch word {
            case .released: isReleased = true
            // It is gone, and all that it had is free, or soon is.
            case nil:
                isReleased = true
                announced()
            case .announced: announced()
            // It serves on, or ends because it was told to. Its end alone would look as if it had been killed.
            case .cancelled: if !hasBegun, !isStopping { stopAsked() }
            case .started, .prepared, .serving, .failed, .unknown: break
            }
            // Later words come while this process serves.
            if !hasBegun { loop.stop() }
        }
        predecessor = channel
        channel.tell(.prepared(process: getpid()))
        if !isReleased, !isStopping { loop.run() }
    }

    /// Once every thread serves.
    func tellServing() {
        guard let predecessor, running.isSubset(of: begun), !hasToldServing else { return }
        hasToldServing = true
        predecessor.tell(.serving)
    }

    /// The service manager watches this process from now on.
    private func announced() {
        guard let channel = predecessor else { return }
        predecessor = nil
        // In the middle of its event.
        loop.whenTurnEnds { channel.close() }
        if hasBegun { beginNotifying() }
    }
}
