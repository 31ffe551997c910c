internal import EventLoop
internal import Registry

/// The requests to the registry of this process that wait for a reply. Their number is limited to the registry's limit
/// for enrolment.
final class RegistryRequests {
    typealias Completion = (Result<RegistryReply, EnrolmentFault>) -> Void

    private struct Waiting {
        let completion: Completion
        let timer: LoopTimer
    }

    private let loop: Loop
    private var client: RegistryClient?
    private var waiting: [UInt64: Waiting] = [:]
    private var lastToken: UInt64 = 0

    /// Far above the time of a command, even with a busy disk. A store's thread that has died never answers.
    private static let patience = TimeSpan.seconds(5)

    /// Connects to the registry.
    ///
    /// - Parameter renewed: Called when the store has a new epoch.
    init(_ registry: DeviceRegistry, loop: Loop, renewed: @escaping (StoreIdentity) -> Void) throws(EventLoopError) {
        self.loop = loop
        client = try RegistryClient(registry, loop: loop, commandLimit: RegistryLimits.enrolmentCommands) {
            [unowned self] event in
            switch event {
            case .reply(let token, let result): complete(token, result.mapError { EnrolmentFault($0) })
            case .identity(let identity): renewed(identity)
            case .device, .counter, .barred: break
            }
        }
    }

    /// The number of commands without an answer.
    var count: Int { waiting.count }

    /// Sends a command.
    ///
    /// - Parameter completion: Called once, on the loop's thread.
    func send(_ command: RegistryCommand, completion: @escaping Completion) {
        lastToken += 1
        let token = lastToken
        guard let client, client.perform(command, token: token) else {
            return completion(.failure(.storeUnavailable))
        }
        let timer = LoopTimer(loop: loop, interval: Self.patience) { [unowned self] in
            complete(token, .failure(.storeUnavailable))
        }
        waiting[token] = Waiting(completion: completion, timer: timer)
    }

    private func complete(_ token: UInt64, _ result: Result<RegistryReply, EnrolmentFault>) {
        waiting.removeValue(forKey: token)?.completion(result)
    }
}
