public import Vocabulary

/// What the registry tells a worker, on the worker's own thread. A token is what the worker gave with its question.
public enum RegistryEvent: Sendable {
    /// The answer to a lookup that was `pending`; never `pending` itself.
    case device(token: UInt64, DeviceLookup)
    /// What became of a counter value that was accepted in memory.
    case counter(token: UInt64, CounterOutcome)
    case reply(token: UInt64, Result<RegistryReply, StoreError>)
    /// The device of these mTLS keys was revoked, or the binding of this key ended: open connections with them are to be
    /// closed. Lookups say so already.
    case barred([KeyID])
    /// The store has a fresh epoch: challenges of earlier ones are refused. A client that attaches later receives it at
    /// once.
    case identity(StoreIdentity)
}

/// What the store's thread reports for logs.
public enum StoreEvent: Equatable, Sendable {
    /// The store failed; everything that needs it is refused until it has recovered.
    case failed(String)
    /// It still cannot be opened. Reported once for each reason.
    case cannotReopen(String)
    case recovered
}
