internal import EventLoop
internal import Glibc
internal import Registry

/// Taking over from another process: the other half of `GatewayProcess+Upgrade`.
extension GatewayProcess {
    /// Announces that everything is ready, and waits until the other process has stopped accepting and has released the
    /// registry. Clients that connect meanwhile wait in the sockets' queues. Ends early if this process begins to stop.
    func awaitRelease() {
        guard let descriptor = inheritance.predecessor else { return }
        var isReleased = false
        // The current conf file may name another file than the other process has: nobody hands that over.
        let isHeld = registryPath.map { DeviceRegistry.isHeld(path: $0) } ?? false
        let channel = UpgradeChannel(loop: loop, socket: Socket(adopting: descriptor)) { [unowned self] word in
            switch word {
            case .released:
                isReleased = true
                isHandover = isHeld
            // It is gone, and all that it had is free, or soon is.
            case nil:
                isReleased = true
                announced()
            case .announced: announced()
            // The other process continues to serve, or ends in order. Its end alone would look as if it had been
            // killed.
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
        guard let predecessor, running.isSubset(of: begun), !hasReportedServing else { return }
        hasReportedServing = true
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
