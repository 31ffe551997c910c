internal import EventLoop
internal import Vocabulary

/// What workers ask of the store's thread.
enum StoreRequest: Sendable {
    case attach(ClientNumber, Mailbox<[RegistryEvent]>)
    case detach(ClientNumber)
    case look(KeyID, Reference)
    case spend([SpendRequest])
    case perform(RegistryCommand, Reference)
    /// From the thread to itself: go on with work that was cut into slices.
    case turn
    /// Commit what was asked before this, close the file, end.
    case stop
}

struct ClientNumber: Hashable, Sendable {
    let number: Int
}

/// Who asked, and what the answer carries so that they know what for.
struct Reference: Sendable {
    let client: ClientNumber
    let token: UInt64
}

struct SpendRequest: Sendable {
    let entry: CounterEntry
    let reference: Reference
    /// Whether the value is spent in the shared record. It is not if the record had to make room meanwhile.
    let isAccepted: Bool
}
