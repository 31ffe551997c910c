internal import HTTP

/// What the service answers, and where.
package enum EnrolmentEndpoint: Int, CaseIterable, Sendable {
    case nonce
    case initialization
    case keyBinding

    package var path: StaticString {
        switch self {
        case .nonce: "/nonce"
        case .initialization: "/instance-initialization"
        case .keyBinding: "/key-binding"
        }
    }

    /// The one method that is admitted.
    var method: HTTP.Method { self == .nonce ? .get : .post }

    /// For logs and metrics.
    package var name: String { String("\(path)".dropFirst()) }

    init?(path: String) {
        guard let endpoint = Self.allCases.first(where: { "\($0.path)" == path }) else { return nil }
        self = endpoint
    }
}
