internal import EventLoop
internal import Registry
internal import Server

/// Holds one worker's requests to the rates of its configuration.
///
/// A request takes a token of each rate that concerns it, in the order in which the gateway gets to know what it is: of its
/// source before anything else is done for it; of its device once the certificate has shown which that is, before the proof
/// is verified, so that a key id somebody merely claims takes nothing; of its route when nothing but its content is left to
/// be judged, so that who is refused otherwise takes nothing of what the others have.
///
/// A class, so that looking at it touches no reference count of what the workers share.
final class RateLimiter {
    private let source: Rate?
    private let device: Rate?
    /// By route, in the order of the table: the rate, and whose bucket it is.
    private let routes: [(rate: Rate, owner: Int)?]
    private let shared: SharedLimits

    /// - Parameter routes: the names of the routes, in the order of the table.
    init(_ rates: RequestRates, routes: [String], shared: SharedLimits) {
        source = rates.source
        device = rates.device
        self.routes = routes.map { name in rates.routes[name].map { ($0, name.hashValue) } }
        self.shared = shared
    }

    var limitsSources: Bool { source != nil }

    /// - Parameter owner: the `hashValue` of the client's address block.
    func excess(ofSource owner: Int, now: Instant) -> RateExcess? {
        guard let source else { return nil }
        return excess(.source, source, shared.sourceRates.take(of: owner, source, now: now))
    }

    func excess(of id: DeviceID, now: Instant) -> RateExcess? {
        guard let device else { return nil }
        return excess(.device, device, shared.deviceRates.take(of: id.hashValue, device, now: now))
    }

    func excess(ofRoute route: Int, now: Instant) -> RateExcess? {
        guard let (rate, owner) = routes[route] else { return nil }
        return excess(.route, rate, shared.routeRates.take(of: owner, rate, now: now))
    }

    private func excess(_ scope: RateScope, _ rate: Rate, _ wait: TimeSpan?) -> RateExcess? {
        wait.map { RateExcess(scope: scope, rate: rate, wait: $0.wholeSeconds) }
    }
}
