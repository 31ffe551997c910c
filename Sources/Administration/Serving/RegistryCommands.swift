internal import EventLoop
internal import Registry

/// Sends commands to the registry of this process, and assigns each reply to the request that waits for it.
final class RegistryCommands {
    private let loop: Loop
    private var client: RegistryClient?
    private var waiting: [UInt64: Waiting] = [:]
    private var lastToken: UInt64 = 0

    private struct Waiting {
        let command: RegistryCommand
        let completion: (Result<RegistryReply, AdministrationFault>) -> Void
        let timer: LoopTimer
    }

    /// Far above what a command takes, a busy disk included; a store's thread that has died answers nothing.
    private static let patience = TimeSpan.seconds(5)

    init(_ registry: DeviceRegistry, loop: Loop) throws(EventLoopError) {
        self.loop = loop
        try turn(to: registry)
    }

    /// Continues with another store after the previous one has ended. Commands sent to the previous store end by their
    /// timeout.
    func turn(to registry: DeviceRegistry) throws(EventLoopError) {
        client = try RegistryClient(registry, loop: loop) { [unowned self] event in
            if case .reply(let token, let result) = event { complete(token, result) }
        }
    }

    /// - Parameter completion: called once, on the loop's thread.
    func perform(
        _ command: RegistryCommand, completion: @escaping (Result<RegistryReply, AdministrationFault>) -> Void
    ) {
        lastToken += 1
        let token = lastToken
        guard let client, client.perform(command, token: token) else { return completion(.failure(.busy)) }
        let timer = LoopTimer(loop: loop, interval: Self.patience) { [unowned self] in
            complete(token, .failure(.unavailable))
        }
        waiting[token] = Waiting(command: command, completion: completion, timer: timer)
    }

    private func complete(_ token: UInt64, _ result: Result<RegistryReply, StoreError>) {
        guard let asked = waiting.removeValue(forKey: token) else { return }
        asked.completion(result.mapError { AdministrationFault($0, asking: asked.command) })
    }
}
