internal import EventLoop
internal import Synchronization

/// What the workers' clients and the store's thread have in common.
final class RegistryShared: Sendable {
    let limits: RegistryLimits
    let requests: Mailbox<StoreRequest>
    let records: SharedRecords
    let apps = AppNumbers()
    let health = StoreHealth()
    let counts = RegistryCounts()
    /// Nil while all is well, as far as the store's thread has said.
    let trouble = Mutex<StoreOutage?>(nil)
    /// When the store drew an epoch that was not there before, in seconds since 1970; 0 if this process has seen none.
    let epochChange = Atomic<Int64>(0)
    /// As the store's thread knows it; workers hear of a change after that.
    let epoch: Mutex<RandomID>

    init(limits: RegistryLimits, epoch: RandomID) throws(EventLoopError) {
        self.limits = limits
        self.epoch = Mutex(epoch)
        records = SharedRecords(limit: limits.devices, apps: apps)
        // The senders count each kind, so there is room for all of them; the rest is for workers that come and go and
        // for the thread's own messages.
        requests = try Mailbox(
            limit: limits.waitingCounters + limits.waitingLookups + RegistryLimits.waitingCommands + 1_024)
    }
}
