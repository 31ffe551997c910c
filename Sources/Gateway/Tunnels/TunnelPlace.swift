internal import Registry
internal import Vocabulary

/// Who has a tunnel: the device, whatever certificate it comes with, or where none is known the certificate's key.
enum TunnelHolder: Hashable {
    case device(DeviceID)
    case certificate(KeyID?)
}

/// The place of one tunnel, open or about to be. It counts against the limits of its holder, the worker and the
/// upstream.
struct TunnelPlace {
    let holder: TunnelHolder
    /// By its place in the configuration.
    let upstream: Int
}

/// How many tunnels there may be.
package struct TunnelLimits: Equatable, Sendable {
    /// Of one worker.
    let worker: Int
    /// Of one device, or of one certificate's key where none is known, at all workers together.
    let device: Int

    package init(worker: Int, device: Int) {
        self.worker = worker
        self.device = device
    }
}
