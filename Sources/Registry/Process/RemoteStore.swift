internal import EventLoop
internal import Vocabulary

/// The registry of a process that has released its store to another one: it asks that process for look-ups, and learns
/// of revocations, until its last tunnels have ended. It takes no counters and performs no operations.
///
/// It fails closed: a message that is not understood, a full socket and the end of the other process close the channel.
/// Nothing is confirmed from then on, and after `StoreHealth.patience` nobody is admitted.
final class RemoteStore: StoreBackend {
    let identity: StoreIdentity
    private let descriptor: Int32
    private var channel: RegistryChannel?
    private var signal: (StoreSignal) -> Void = { _ in }
    /// The look-ups that the other process has not answered, by token, with their times.
    private var asked: [UInt64: (answer: (Result<FoundDevice?, StoreError>) -> Void, since: Instant)] = [:]
    private var lastToken: UInt64 = 0

    private static let limit = 256
    private static let patience = TimeSpan.seconds(2)

    /// - Parameter descriptor: The socket, owned by this object.
    init(_ identity: StoreIdentity, descriptor: Int32) {
        self.identity = identity
        self.descriptor = descriptor
    }

    var isAvailable: Bool { channel?.isOpen == true }
    var takesBatch: Bool { true }
    var takesLookup: Bool { asked.count < Self.limit }

    func start(on loop: Loop, at time: Int64, signal: @escaping (StoreSignal) -> Void) {
        self.signal = signal
        channel = RegistryChannel(loop: loop, socket: Socket(adopting: descriptor)) { [unowned self] in heard($0) }
    }

    private func heard(_ word: RegistryWord?) {
        switch word {
        case .found(let token, let device): answer(token, .success(device))
        case .failed(let token): answer(token, .failure(.unavailable))
        // Nobody received a change between the release and this message.
        case .opened: signal(.reopened)
        case .confirmed: signal(.confirmed(at: .now))
        case .device(let update): signal(.changes([.device(update)]))
        case .barred(let keys): signal(.changes([.barred(keys)]))
        case .ended(let keys): signal(.changes([.ended(keys)]))
        case nil: for token in asked.keys.sorted() { answer(token, .failure(.unavailable)) }
        case .find: channel?.fail()
        }
    }

    private func answer(_ token: UInt64, _ result: Result<FoundDevice?, StoreError>) {
        let wasFull = !takesLookup
        asked.removeValue(forKey: token)?.answer(result)
        if wasFull { signal(.hasRoom) }
    }

    func find(_ key: KeyID, answer: @escaping (Result<FoundDevice?, StoreError>) -> Void) {
        guard let channel, isAvailable else { return answer(.failure(.unavailable)) }
        lastToken += 1
        asked[lastToken] = (answer, .now)
        channel.send(.find(lastToken, key))
    }

    func commit(_ entries: [CounterEntry], answer: @escaping (_ entry: Int, CounterOutcome) -> Void) {
        for index in entries.indices { answer(index, .storeUnavailable) }
    }

    func perform(
        _ command: RegistryCommand, at time: Int64, answer: @escaping (Result<RegistryReply, StoreError>) -> Void
    ) {
        answer(.failure(.unavailable))
    }

    func tick(at time: Int64) {
        let late = asked.filter { Instant.now - $0.value.since >= Self.patience }
        for token in late.keys.sorted() { answer(token, .failure(.unavailable)) }
    }

    func workOn() {}

    func finish(_ done: @escaping () -> Void) {
        channel?.close()
        channel = nil
        done()
    }
}

/// The other end: answers a process that has released its store to this one.
final class RegistryAnswers {
    private var channel: RegistryChannel?

    /// - Parameters:
    ///   - descriptor: The socket, owned by this object.
    ///   - find: Finds the device of a key.
    init(
        _ descriptor: Int32, loop: Loop,
        find: @escaping (KeyID, @escaping (Result<FoundDevice?, StoreError>) -> Void) -> Void
    ) {
        channel = RegistryChannel(loop: loop, socket: Socket(adopting: descriptor)) { [unowned self] word in
            switch word {
            case .find(let token, let key):
                find(key) { [weak self] result in
                    switch result {
                    case .success(let device): self?.channel?.send(.found(token, device))
                    case .failure: self?.channel?.send(.failed(token))
                    }
                }
            case nil: channel = nil
            default: channel?.fail()
            }
        }
        channel?.send(.opened)
    }

    /// Reports a change of the store.
    func tell(_ change: StoreChange) {
        switch change {
        case .device(let update): channel?.send(.device(update))
        case .barred(let keys): send(keys) { .barred($0) }
        case .ended(let keys): send(keys) { .ended($0) }
        // Concerns only who takes counters or gives challenges.
        case .spent, .window, .identity: break
        }
    }

    func confirm() { channel?.send(.confirmed) }

    private func send(_ keys: [KeyID], _ word: ([KeyID]) -> RegistryWord) {
        for start in stride(from: 0, to: keys.count, by: Self.keysAtOnce) {
            channel?.send(word(Array(keys[start..<min(start + Self.keysAtOnce, keys.count)])))
        }
    }

    private static let keysAtOnce = 256
}

/// An end of the channel between the two.
private final class RegistryChannel {
    private let loop: Loop
    private let heard: (RegistryWord?) -> Void
    private var channel: MessageChannel?

    /// - Parameter heard: Called with each message, and last with nil when the channel has closed.
    init(loop: Loop, socket: consuming Socket, heard: @escaping (RegistryWord?) -> Void) {
        self.loop = loop
        self.heard = heard
        channel = MessageChannel(loop: loop, socket: socket, limit: RegistryWord.longest) { [unowned self] message in
            guard let message, let word = RegistryWord(message) else { return fail() }
            heard(word)
        }
    }

    var isOpen: Bool { channel != nil }

    /// Sends a message. A message that cannot be sent must not be missed: the channel then closes.
    func send(_ word: RegistryWord) {
        guard let channel, !channel.send(word.text) else { return }
        loop.whenTurnEnds { [weak self] in self?.fail() }
    }

    func close() {
        channel?.close()
        channel = nil
    }

    /// Closes the channel.
    func fail() {
        guard isOpen else { return }
        close()
        heard(nil)
    }
}
