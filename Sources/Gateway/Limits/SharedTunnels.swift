internal import Registry
internal import Synchronization
internal import Vocabulary

/// Who has a tunnel: the device, whatever certificate it comes with, or where none is known the certificate's key.
enum TunnelHolder: Hashable {
    case device(DeviceID)
    case certificate(KeyID?)
}

/// How many tunnels everybody has, open or about to be, at all workers and in all generations together.
///
/// No larger than the number of tunnels, which each worker bounds.
final class SharedTunnels: Sendable {
    // One lock: it is taken when a tunnel is about to open and when it has ended, never for what moves in it.
    private let counts = Mutex<[TunnelHolder: Int]>([:])

    /// - Returns: false if they have as many as they may; then nothing is counted. If true, `give` follows, once.
    func take(for holder: TunnelHolder, limit: Int) -> Bool {
        counts.withLock { counts in
            let held = counts[holder] ?? 0
            guard held < limit else { return false }
            counts[holder] = held + 1
            return true
        }
    }

    func give(of holder: TunnelHolder) {
        counts.withLock { counts in
            guard let held = counts[holder] else { return }
            counts[holder] = held > 1 ? held - 1 : nil
        }
    }

    /// How many have one.
    var holders: Int { counts.withLock(\.count) }
}
