internal import Cryptography
internal import Encoding
internal import EventLoop
internal import Registry
internal import Upstream

/// The connections to Apple's services.
final class ReceiptServices {
    private static let path = "/v1/attestationData"

    private let settings: ReceiptSettings
    private let services: OutboundServices
    private let loop: Loop

    init(_ settings: ReceiptSettings, _ context: EnrolmentContext) throws(EnrolmentStartError) {
        self.settings = settings
        loop = context.loop
        let notify = context.notify
        do throws(CryptographyError) {
            services = try OutboundServices(
                settings.services.map(\.upstream), resolver: settings.resolver, forbidden: settings.forbidden,
                loop: context.loop, buffers: context.pool, library: context.library
            ) { notify(EnrolmentNotice(.receipts, $0)) }
        } catch {
            throw EnrolmentStartError("receipts: \(error)")
        }
    }

    /// Resolves the services' names and keeps the addresses current until `leave`.
    func find(_ done: @escaping () -> Void) { services.find(done) }

    func leave() { services.leave() }

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
        return OutboundCall(
            request, on: services.pools[work.service], loop: loop, isRepeatable: true, completion: answered)
    }
}
