internal import Cryptography
internal import EventLoop
internal import Foundation
internal import Registry
internal import Upstream

/// Apple's services: where they are, and how they are asked.
final class ReceiptServices {
    private let settings: ReceiptSettings
    private let pools: [UpstreamPool]
    private let loop: Loop
    private let tell: (ReceiptNotice) -> Void
    /// Where those are that are known by a name. Nil while nothing is asked.
    private var names: NameBook?

    private static let path = "/v1/attestationData"
    private static let namePatience = TimeSpan.seconds(2)

    init(
        _ settings: ReceiptSettings, _ surroundings: EnrolmentGeneration.EnrolmentContext
    ) throws(EnrolmentStartError) {
        self.settings = settings
        loop = surroundings.loop
        tell = surroundings.tell
        do throws(CryptographyError) {
            pools = try settings.services.map { service throws(CryptographyError) in
                try UpstreamPool(
                    loop: surroundings.loop, buffers: surroundings.pool, settings: service.upstream,
                    tallies: service.upstream.servers.map { _ in ServerTally() }, library: surroundings.library)
            }
        } catch {
            throw EnrolmentStartError("receipts: \(error)")
        }
    }

    /// Finds out where the services are, and keeps that up to date until `leave`. What nobody has found yet fails, and is tried again.
    ///
    /// - Parameter done: called when all were looked for, or for as long as that is waited for; at once where they were already.
    func find(_ done: @escaping () -> Void) {
        guard names == nil else { return done() }
        let names = NameBook(loop: loop, settings: settings.resolver, forbidden: settings.forbidden)
        self.names = names
        names.onChange = { [unowned self] servers in
            for server in servers { move(server) }
        }
        names.onEvent = { [tell] event in
            tell(ReceiptNotice(event))
        }
        names.follow(Set(settings.services.flatMap(\.upstream.servers).compactMap(\.resolved)))
        names.whenAnswered(within: Self.namePatience, done)
    }

    private func move(_ server: NamedServer) {
        let addresses = names?.addresses(of: server) ?? []
        for pool in pools { pool.readdress(server, to: addresses) }
    }

    func leave() { names = nil }

    /// Which service is asked about devices of an environment.
    func firstIndex(for environment: AttestationEnvironment) -> Int? {
        settings.services.firstIndex { $0.environments.contains(environment) }
    }

    /// A call that has not begun.
    func call(
        _ work: ReceiptWork, _ authorization: String, answered: @escaping OutboundCall.Completion
    ) -> OutboundCall {
        let service = settings.services[work.service]
        let request = OutboundRequest(
            post: service.path + Self.path, host: service.host,
            fields: [
                ("Authorization", authorization), ("Content-Type", "text/plain"), ("Accept-Encoding", "identity"),
            ],
            content: Array(Data(work.receipt).base64EncodedString().utf8))
        // To ask for the same once more does no harm: what is newer is exchanged again.
        return OutboundCall(request, on: pools[work.service], loop: loop, isRepeatable: true, completion: answered)
    }
}
