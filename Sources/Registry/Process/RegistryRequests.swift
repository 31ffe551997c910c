public import EventLoop

/// The commands of one loop to the registry of this process that wait for a reply. Used on the loop's thread.
public final class RegistryRequests {
    public typealias Completion = (Result<RegistryReply, StoreError>) -> Void

    private struct Waiting {
        let completion: Completion
        let timer: LoopTimer
    }

    private let loop: Loop
    private let commandLimit: Int
    private let renewed: (StoreIdentity) -> Void
    private var client: RegistryClient?
    private var waiting: [UInt64: Waiting] = [:]
    private var lastToken: UInt64 = 0

    /// Far above the time of a command, even with a busy disk. A store's thread that has died never answers.
    private static let patience = TimeSpan.seconds(5)

    /// Connects to the registry.
    ///
    /// - Parameters:
    ///   - commandLimit: As in `RegistryClient`.
    ///   - renewed: Called when the store has a new epoch.
    public init(
        _ registry: DeviceRegistry, loop: Loop, commandLimit: Int = RegistryLimits.waitingCommands,
        renewed: @escaping (StoreIdentity) -> Void = { _ in }
    ) throws(EventLoopError) {
        self.loop = loop
        self.commandLimit = commandLimit
        self.renewed = renewed
        try turn(to: registry)
    }

    /// Continues with another store after the previous one has ended. Commands sent to the previous store end by their
    /// timeout.
    public func turn(to registry: DeviceRegistry) throws(EventLoopError) {
        client = try RegistryClient(registry, loop: loop, commandLimit: commandLimit) { [unowned self] event in
            switch event {
            case .reply(let token, let result): complete(token, result)
            case .identity(let identity): renewed(identity)
            case .device, .counter, .barred: break
            }
        }
    }

    /// Sends a command.
    ///
    /// - Parameter completion: Called once, on the loop's thread.
    /// - Returns: false if the queue is full. `completion` is then not called.
    public func send(_ command: RegistryCommand, completion: @escaping Completion) -> Bool {
        lastToken += 1
        let token = lastToken
        guard let client, client.perform(command, token: token) else { return false }
        let timer = LoopTimer(loop: loop, interval: Self.patience) { [unowned self] in
            complete(token, .failure(.unavailable))
        }
        waiting[token] = Waiting(completion: completion, timer: timer)
        return true
    }

    private func complete(_ token: UInt64, _ result: Result<RegistryReply, StoreError>) {
        waiting.removeValue(forKey: token)?.completion(result)
    }
}
