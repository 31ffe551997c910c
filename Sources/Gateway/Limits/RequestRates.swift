package import EventLoop
internal import Server

/// How often requests may come by one configuration; nil for no limit.
package struct RequestRates: Sendable {
    let source: Rate?
    let device: Rate?
    /// By name.
    let routes: [String: Rate]

    package init(source: Rate?, device: Rate?, routes: [String: Rate]) {
        self.source = source
        self.device = device
        self.routes = routes
    }

    package static let none = RequestRates(source: nil, device: nil, routes: [:])

    var isNone: Bool { source == nil && device == nil && routes.isEmpty }
}

/// Whose requests a rate counts.
enum RateScope: String, CaseIterable {
    case source
    case device
    case route
}

/// A request that came too early.
struct RateExcess: Equatable {
    let scope: RateScope
    let rate: Rate
    /// How long until one may come, in seconds.
    let wait: Int
}
