internal import HTTP

/// The endpoints of the federation.
public enum FederationEndpoint: Int, CaseIterable, Sendable {
    case token
    case authorize
    case revoke
    case introspect
    case validate
    case challenge
    case usedServices
    case protocolDiscovery
    case descriptionDiscovery
    case serviceDiscovery
    case join
    case ownDescription

    /// The path on the listener.
    public var path: String {
        switch self {
        case .token: "/token"
        case .authorize: "/authorize"
        case .revoke: "/revoke"
        case .introspect: "/introspect"
        case .validate: "/token/validate"
        case .challenge: "/.well-known/attestgate/challenge"
        case .usedServices: "/service-discovery/user"
        case .protocolDiscovery: "/protocol-discovery/protocol"
        case .descriptionDiscovery: "/protocol-discovery/service"
        case .serviceDiscovery: "/service-discovery"
        case .join: "/service-discovery/federation"
        case .ownDescription: "/services.txt"
        }
    }

    /// The name in logs and metrics.
    var name: String {
        switch self {
        case .token: "token"
        case .authorize: "authorize"
        case .revoke: "revoke"
        case .introspect: "introspect"
        case .validate: "validate"
        case .challenge: "challenge"
        case .usedServices: "used_services"
        case .protocolDiscovery: "protocol_discovery"
        case .descriptionDiscovery: "description_discovery"
        case .serviceDiscovery: "service_discovery"
        case .join: "join"
        case .ownDescription: "services.txt"
        }
    }

    var method: HTTP.Method {
        switch self {
        case .token, .authorize, .revoke, .introspect, .validate, .protocolDiscovery, .descriptionDiscovery,
            .serviceDiscovery:
            .post
        case .challenge, .usedServices, .ownDescription: .get
        case .join: .put
        }
    }

    enum Content {
        case none
        case form
        case json
    }

    var content: Content {
        switch self {
        case .token, .authorize, .revoke, .introspect: .form
        case .validate, .protocolDiscovery, .descriptionDiscovery, .serviceDiscovery, .join: .json
        case .challenge, .usedServices, .ownDescription: .none
        }
    }

    init?(path: String) {
        guard let endpoint = Self.allCases.first(where: { $0.path == path }) else { return nil }
        self = endpoint
    }
}
