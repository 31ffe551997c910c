internal import Encoding
internal import Registry

/// A service of the federation as JSON.
public struct ServiceDocument: Codable, Equatable, Sendable {
    public let id: String
    public let name: String
    /// The home page.
    public let url: String
    public let tokenEndpoint: String
    /// The URL of its RSD2 document.
    public let descriptionURL: String
    /// `waiting`, `approved` or `removed`.
    public let state: String
    /// The time of the last joining in RFC 3339, UTC.
    public let joinedAt: String

    private enum CodingKeys: String, CodingKey {
        case id, name, url, state
        case tokenEndpoint = "token_endpoint"
        case descriptionURL = "description_url"
        case joinedAt = "joined_at"
    }

    init(_ service: FederationService) {
        id = service.id
        name = service.name
        url = service.url
        tokenEndpoint = service.tokenEndpoint
        descriptionURL = service.descriptionURL
        state = service.isActive ? "approved" : service.revokedAt == nil ? "waiting" : "removed"
        joinedAt = InternetTime.text(of: service.joinedAt)
    }
}

/// All services in the order of their ids.
public struct ServiceList: Codable, Equatable, Sendable {
    public let services: [ServiceDocument]
}

/// A token of the federation as JSON. Times are in RFC 3339, UTC.
public struct FederationTokenDocument: Codable, Equatable, Sendable {
    /// SHA-256 of the token in base64url, as services see it.
    public let id: String
    /// `instance`, `code`, `service` or `app`.
    public let kind: String
    /// The token from which it was derived. Null for an instance.
    public let parent: String?
    public let audience: String
    /// The other app that holds it. Null for none.
    public let party: String?
    public let scope: String
    public let issuedAt: String
    public let expiresAt: String
    /// Null unless revoked.
    public let revokedAt: String?

    private enum CodingKeys: String, CodingKey {
        case id, kind, parent, audience, party, scope
        case issuedAt = "issued_at"
        case expiresAt = "expires_at"
        case revokedAt = "revoked_at"
    }

    init(_ token: FederationToken) {
        id = Base64URL.encode(token.id.bytes)
        kind = token.kind.rawValue
        parent = token.parent.map { Base64URL.encode($0.bytes) }
        audience = token.audience
        party = token.party
        scope = token.scope
        issuedAt = InternetTime.text(of: token.issuedAt)
        expiresAt = InternetTime.text(of: token.expiresAt)
        revokedAt = token.revokedAt.map(InternetTime.text(of:))
    }

    public func encode(to encoder: any Encoder) throws {
        var members = encoder.container(keyedBy: CodingKeys.self)
        try members.encode(id, forKey: .id)
        try members.encode(kind, forKey: .kind)
        try members.encode(parent, forKey: .parent)
        try members.encode(audience, forKey: .audience)
        try members.encode(party, forKey: .party)
        try members.encode(scope, forKey: .scope)
        try members.encode(issuedAt, forKey: .issuedAt)
        try members.encode(expiresAt, forKey: .expiresAt)
        try members.encode(revokedAt, forKey: .revokedAt)
    }
}
