internal import EventLoop
internal import Registry

/// Sends commands to the registry of this process, and assigns each reply to the request that waits for it. At most as
/// many wait at once as the registry allows for enrolment.
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

    /// Far above what a command takes, a busy disk included; a store's thread that has died answers nothing.
    private static let patience = TimeSpan.seconds(5)

    /// - Parameter renewed: the store has a fresh epoch.
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

    /// Commands whose answer is awaited.
    var count: Int { waiting.count }

    /// - Parameter completion: called once, on the loop's thread.
    func ask(_ command: RegistryCommand, completion: @escaping Completion) {
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
