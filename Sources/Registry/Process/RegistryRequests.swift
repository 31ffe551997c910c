public import EventLoop
public import Vocabulary

/// What one loop asks of the registry of this process, and waits for. Used on the loop's thread.
public final class RegistryRequests {
    public typealias Completion = (Result<RegistryReply, StoreError>) -> Void

    private enum Receiver {
        case command(Completion)
        case lookup((DeviceLookup) -> Void)
        case counter((CounterOutcome) -> Void)
    }

    private struct Waiting {
        let receiver: Receiver
        let timer: LoopTimer
    }

    private let loop: Loop
    private let commandLimit: Int
    private let renewed: (StoreIdentity) -> Void
    private let barred: ([KeyID]) -> Void
    private var client: RegistryClient?
    private var waiting: [UInt64: Waiting] = [:]
    private var lastToken: UInt64 = 0

    /// Far above the time of a command, even with a busy disk. A store's thread that has died never answers.
    private static let patience = TimeSpan.seconds(5)

    /// Connects to the registry.
    ///
    /// - Parameters:
    ///   - commandLimit: As in `RegistryClient`.
    ///   - barred: Called with the mTLS keys whose open connections must be closed.
    ///   - renewed: Called when the store has a new epoch.
    public init(
        _ registry: DeviceRegistry, loop: Loop, commandLimit: Int = RegistryLimits.waitingCommands,
        barred: @escaping ([KeyID]) -> Void = { _ in },
        renewed: @escaping (StoreIdentity) -> Void = { _ in }
    ) throws(EventLoopError) {
        self.loop = loop
        self.commandLimit = commandLimit
        self.barred = barred
        self.renewed = renewed
        try turn(to: registry)
    }

    /// Continues with another store after the previous one has ended. Commands sent to the previous store end by their
    /// timeout.
    public func turn(to registry: DeviceRegistry) throws(EventLoopError) {
        client = try RegistryClient(registry, loop: loop, commandLimit: commandLimit) { [unowned self] event in
            switch event {
            case .reply(let token, let result): complete(token, .command(result))
            case .device(let token, let lookup): complete(token, .lookup(lookup))
            case .counter(let token, let outcome): complete(token, .counter(outcome))
            case .identity(let identity): renewed(identity)
            case .barred(let keys): barred(keys)
            }
        }
    }

    /// Sends a command.
    ///
    /// - Parameter completion: Called once, on the loop's thread.
    /// - Returns: false if the queue is full. `completion` is then not called.
    public func send(_ command: RegistryCommand, completion: @escaping Completion) -> Bool {
        lastToken += 1
        guard let client, client.perform(command, token: lastToken) else { return false }
        wait(lastToken, .command(completion))
        return true
    }

    /// Looks up the device that an mTLS key is bound to.
    ///
    /// - Parameter completion: Called once, on the loop's thread, perhaps before this returns. Never with `pending`.
    public func lookUp(_ key: KeyID, completion: @escaping (DeviceLookup) -> Void) {
        lastToken += 1
        guard let client else { return completion(.storeUnavailable) }
        let lookup = client.device(forBinding: key, token: lastToken)
        if lookup.isPending { wait(lastToken, .lookup(completion)) } else { completion(lookup) }
    }

    /// Spends a counter value as `RegistryClient.spend` does.
    ///
    /// - Parameter completion: Called once after `pending`, on the loop's thread.
    public func spend(
        _ counter: UInt32, of device: DeviceSnapshot, showing shown: ShownExtensions, mode: CounterMode,
        epoch: RandomID, completion: @escaping (CounterOutcome) -> Void
    ) -> CounterAcceptance {
        lastToken += 1
        guard let client else { return .storeUnavailable }
        let acceptance = client.spend(counter, of: device, showing: shown, mode: mode, epoch: epoch, token: lastToken)
        if acceptance == .pending { wait(lastToken, .counter(completion)) }
        return acceptance
    }

    private func wait(_ token: UInt64, _ receiver: Receiver) {
        let timer = LoopTimer(loop: loop, interval: Self.patience) { [unowned self] in complete(token, .none) }
        waiting[token] = Waiting(receiver: receiver, timer: timer)
    }

    private enum Answer {
        case command(Result<RegistryReply, StoreError>)
        case lookup(DeviceLookup)
        case counter(CounterOutcome)
        /// None came in time.
        case none
    }

    private func complete(_ token: UInt64, _ answer: Answer) {
        guard let receiver = waiting.removeValue(forKey: token)?.receiver else { return }
        switch (receiver, answer) {
        case (.command(let completion), .command(let result)): completion(result)
        case (.lookup(let completion), .lookup(let lookup)): completion(lookup)
        case (.counter(let completion), .counter(let outcome)): completion(outcome)
        case (.command(let completion), _): completion(.failure(.unavailable))
        case (.lookup(let completion), _): completion(.storeUnavailable)
        case (.counter(let completion), _): completion(.storeUnavailable)
        }
    }
}
