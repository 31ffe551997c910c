internal import CLinux
internal import Glibc

/// Accepts connections on a listening socket and hands each to its owner.
public final class ListeningSocket: SocketHandler {
    private let accepted: (consuming Socket, SocketAddress) -> Void
    /// Called with the error number when no connection can be accepted for want of descriptors or memory.
    private let exhausted: (Int32) -> Void
    /// Connections taken per wake-up, so that one burst does not starve the connections being served.
    private let burst = 64
    private let ceiling: Int32

    /// - Parameter ceiling: Accepting pauses while descriptors below this number are all in use. A new descriptor gets the
    ///   lowest free number (accept(2)), so the number shows how many the whole process has open.
    public init(
        loop: Loop, socket: consuming Socket, ceiling: Int32 = .max, exhausted: @escaping (Int32) -> Void = { _ in },
        accepted: @escaping (consuming Socket, SocketAddress) -> Void
    ) {
        self.ceiling = ceiling
        self.accepted = accepted
        self.exhausted = exhausted
        super.init(loop: loop, socket: socket)
        wantRead(true)
    }

    public override func readable() {
        for _ in 0..<burst {
            var descriptor: Int32 = -1
            let flags = Int32(SOCK_NONBLOCK.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
            let peer = SocketAddress { address, length in
                descriptor = ag_accept4(self.descriptor, address, length, flags)
                return descriptor
            }
            guard descriptor >= 0 else {
                let error = errno
                if error == ECONNABORTED { continue }
                if EventLoopError.isExhaustion(error) {
                    pause()
                    exhausted(error)
                }
                return
            }
            if !peer.isUnix {
                var one: Int32 = 1
                _ = setsockopt(
                    descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &one, socklen_t(MemoryLayout<Int32>.size))
            }
            // The one that has passed the ceiling is served; the next ones wait in the kernel.
            let isOver = descriptor >= ceiling
            accepted(Socket(adopting: descriptor), peer)
            guard isOpen else { return }
            if isOver {
                pause()
                exhausted(EMFILE)
                return
            }
        }
    }

    /// A second descriptor of the same socket, with the same queue of connections. - Returns: nil if there is none left.
    public func duplicate() -> Int32? {
        let duplicate = fcntl(descriptor, F_DUPFD_CLOEXEC, 0)
        return duplicate >= 0 ? duplicate : nil
    }

    /// Out of descriptors or memory: the queue stays readable, so without a pause the loop would spin.
    private func pause() {
        wantRead(false)
        setDeadline(.now + .milliseconds(100))
    }

    public override func deadlinePassed() {
        if hasRoom { wantRead(true) } else { pause() }
    }

    /// Whether a descriptor below the ceiling is free.
    private var hasRoom: Bool {
        guard ceiling < .max else { return true }
        guard let probe = duplicate() else { return false }
        _ = Socket(adopting: probe)
        return probe < ceiling
    }
}
