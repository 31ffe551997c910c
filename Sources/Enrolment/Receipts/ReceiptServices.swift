internal import Cryptography
internal import Encoding
internal import EventLoop
internal import Registry
internal import Upstream

/// The connections to Apple's services.
final class ReceiptServices {
    private let settings: ReceiptSettings
    private let pools: [UpstreamPool]
    private let loop: Loop
    private let notify: (ReceiptNotice) -> Void
    /// The addresses of services that have names. Nil while no calls are made.
    private var names: NameBook?

    private static let path = "/v1/attestationData"
    private static let namePatience = TimeSpan.seconds(2)

    init(
        _ settings: ReceiptSettings, _ context: EnrolmentContext
    ) throws(EnrolmentStartError) {
        self.settings = settings
        loop = context.loop
        notify = context.notify
        do throws(CryptographyError) {
            pools = try settings.services.map { service throws(CryptographyError) in
                try UpstreamPool(
                    loop: context.loop, buffers: context.pool, settings: service.upstream,
                    tallies: service.upstream.servers.map { _ in ServerTally() }, library: context.library)
            }
        } catch {
            throw EnrolmentStartError("receipts: \(error)")
        }
    }

    /// Resolves the services' names and keeps the addresses current until `leave`. Failed names are tried again.
    ///
    /// - Parameter done: Called when all names have a result or the wait has ended. It is called at once if they are
    ///   known already.
    func find(_ done: @escaping () -> Void) {
        guard names == nil else { return done() }
        let names = NameBook(loop: loop, settings: settings.resolver, forbidden: settings.forbidden)
        self.names = names
        names.onChange = { [unowned self] servers in
            for server in servers { move(server) }
        }
        names.onEvent = { [notify] event in
            notify(ReceiptNotice(event))
        }
        names.follow(Set(settings.services.flatMap(\.upstream.servers).compactMap(\.resolved)))
        names.whenAnswered(within: Self.namePatience, done)
    }

    private func move(_ server: NamedServer) {
        let addresses = names?.addresses(of: server) ?? []
        for pool in pools { pool.readdress(server, to: addresses) }
    }

    func leave() { names = nil }

    /// Returns the index of the service for devices of an environment.
    func firstIndex(for environment: AttestationEnvironment) -> Int? {
        settings.services.firstIndex { $0.environments.contains(environment) }
    }

    /// Returns a call that has not begun.
    func call(
        _ work: ReceiptWork, _ authorization: String, answered: @escaping OutboundCall.Completion
    ) -> OutboundCall {
        let service = settings.services[work.service]
        let request = OutboundRequest(
            post: service.path + Self.path, host: service.host,
            fields: [
                ("Authorization", authorization), ("Content-Type", "text/plain"), ("Accept-Encoding", "identity"),
            ],
            content: Array(Base64.encode(work.receipt).utf8))
        // Repeating the request is harmless, because a newer receipt can be exchanged again.
        return OutboundCall(request, on: pools[work.service], loop: loop, isRepeatable: true, completion: answered)
    }
}
