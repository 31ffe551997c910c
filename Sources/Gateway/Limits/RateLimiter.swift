internal import Bytes
package import EventLoop
internal import HTTP
internal import Registry
internal import Server

/// Enforces the configured rates on one worker's requests.
///
/// A request takes a token of each rate that applies, as soon as that is known: of its source first; of its device
/// once the certificate has shown it, before the proof is verified, so that a claimed key id takes nothing; of its
/// route when only its content is left to check, so that requests refused for other reasons take nothing from others.
///
/// A class, so that using it does not touch reference counts that workers share.
final class RateLimiter {
    private let source: Rate?
    private let device: Rate?
    /// By route, in the order of the table: the rate, and the owner of its bucket.
    private let routes: [(rate: Rate, owner: Int)?]
    private let shared: SharedLimits

    /// Creates a limiter.
    ///
    /// - Parameter routes: The names of the routes, in the order of the table.
    init(_ rates: RequestRates, routes: [String], shared: SharedLimits) {
        source = rates.source
        device = rates.device
        self.routes = routes.map { name in rates.routes[name].map { ($0, name.hashValue) } }
        self.shared = shared
    }

    var limitsSources: Bool { source != nil }

    /// Takes a token of a source.
    ///
    /// - Parameter owner: The `hashValue` of the client's address block.
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

/// The configured rates of requests; nil for no limit.
package struct RequestRates: Sendable {
    let source: Rate?
    let device: Rate?
    /// By name of the route.
    let routes: [String: Rate]

    package init(source: Rate?, device: Rate?, routes: [String: Rate]) {
        self.source = source
        self.device = device
        self.routes = routes
    }

    package static let none = RequestRates(source: nil, device: nil, routes: [:])

    var isNone: Bool { source == nil && device == nil && routes.isEmpty }
}

/// The scope of a rate.
enum RateScope: String, CaseIterable {
    case source
    case device
    case route
}

/// An exceeded rate.
struct RateExcess: Equatable {
    let scope: RateScope
    let rate: Rate
    /// The time until a request may be sent, in seconds.
    let wait: Int
}

extension RateExcess {
    /// Appends `Retry-After` (RFC 9110 section 10.2.3) and the fields of draft-ietf-httpapi-ratelimit-headers: the
    /// burst is the quota, and the window is the time in which as many tokens return.
    func append(to output: inout ByteBuffer) {
        output.appendField("Retry-After", decimal: UInt64(wait))
        let policy = Array("\"\(scope.rawValue)\";q=\(rate.burst);w=\(rate.refill.wholeSeconds)".utf8)
        output.appendField("RateLimit-Policy", policy.span)
        let state = Array("\"\(scope.rawValue)\";r=0;t=\(wait)".utf8)
        output.appendField("RateLimit", state.span)
    }
}
