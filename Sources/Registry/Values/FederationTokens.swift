public import Vocabulary

/// A token of the federation as stored: only its SHA-256 is kept. Times are in seconds since 1970-01-01T00:00:00Z.
public struct FederationToken: Equatable, Sendable {
    public enum Kind: String, CaseIterable, Sendable {
        /// Of an app's instance, which obtains all others. The root of a tree.
        case instance
        /// For one exchange into a token, by the service that it is for.
        case code
        /// For a service.
        case service
        /// For another app, at the service of the parent, with no more than the parent's scope.
        case app
    }

    /// SHA-256 of the token. It is shown as `jti`: nobody can compute the token from it.
    public let id: Fingerprint
    public let kind: Kind
    /// The token from which this one was derived, and with which it is revoked. Nil for an instance.
    public let parent: Fingerprint?
    /// The hardware key of the device whose instance obtained it.
    public let device: KeyID
    /// Who accepts the token: the URL of a service, or of the federation itself for an instance.
    public let audience: String
    /// The app that holds the token, as its agent names it. Nil for the agent or the service itself.
    public let party: String?
    /// Words separated by spaces.
    public let scope: String
    /// The JWK thumbprint of the key that the token is bound to. Nil for a bearer token.
    public let thumbprint: String?
    public let issuedAt: Int64
    public let expiresAt: Int64
    public let revokedAt: Int64?

    public init(
        id: Fingerprint, kind: Kind, parent: Fingerprint?, device: KeyID, audience: String, party: String?,
        scope: String, thumbprint: String?, issuedAt: Int64, expiresAt: Int64, revokedAt: Int64? = nil
    ) {
        self.id = id
        self.kind = kind
        self.parent = parent
        self.device = device
        self.audience = audience
        self.party = party
        self.scope = scope
        self.thumbprint = thumbprint
        self.issuedAt = issuedAt
        self.expiresAt = expiresAt
        self.revokedAt = revokedAt
    }

    /// Whether the token is neither expired nor revoked. Its device is not considered.
    public func isLive(at time: Int64) -> Bool { revokedAt == nil && time < expiresAt }

    /// Returns the token as revoked. A token that was revoked before stays as it is.
    package func revoked(at time: Int64) -> FederationToken {
        FederationToken(
            id: id, kind: kind, parent: parent, device: device, audience: audience, party: party, scope: scope,
            thumbprint: thumbprint, issuedAt: issuedAt, expiresAt: expiresAt, revokedAt: revokedAt ?? time)
    }

    /// The longest audience, party or scope in bytes.
    public static let textLimit = 1024
    /// The maximum of a device's tokens that have not expired.
    public static let limitPerDevice = 256
    /// How long a row is kept after its expiry, in seconds: the services that a person has used are known by it.
    package static let keptAfterEnd: Int64 = 7_776_000

    /// Returns whether a text may be stored: printable ASCII without quotation marks and backslashes, which neither
    /// URLs, scopes (RFC 6749 section 3.3) nor names of apps have.
    public static func admits(_ text: String) -> Bool {
        (1...textLimit).contains(text.utf8.count) && text.utf8.allSatisfy(isPlain)
    }

    static func isPlain(_ byte: UInt8) -> Bool {
        (0x20...0x7e).contains(byte) && byte != UInt8(ascii: "\"") && byte != UInt8(ascii: "\\")
    }
}

/// A stored token with what decides on its use.
public struct FoundToken: Equatable, Sendable {
    public let token: FederationToken
    public let device: DeviceID
    public let isDeviceRevoked: Bool
    /// The person for whom the device was admitted.
    public let subject: Fingerprint?

    public init(token: FederationToken, device: DeviceID, isDeviceRevoked: Bool, subject: Fingerprint?) {
        self.token = token
        self.device = device
        self.isDeviceRevoked = isDeviceRevoked
        self.subject = subject
    }

    /// Whether the token is accepted.
    public func isLive(at time: Int64) -> Bool { !isDeviceRevoked && token.isLive(at: time) }
}

/// A request for a token by an instance, whose assertion was verified.
public struct TokenGrant: Sendable {
    /// SHA-256 of the new token.
    public let token: Fingerprint
    public let kind: FederationToken.Kind
    /// The key that signed the assertion: the mTLS key of the device.
    public let key: KeyID
    /// The hardware key of that device, as the assertion names it.
    public let instance: KeyID
    /// The token from which the new one is derived. Nil for the device's newest instance token, or for an instance.
    public let parent: Fingerprint?
    /// The URL of the service, or of the federation for an instance. Nil for the audience of the parent.
    public let audience: String?
    public let party: String?
    /// The requested words. Nil for all of the parent.
    public let scope: [String]?
    /// The words that an instance may have.
    public let instanceScope: [String]
    public let thumbprint: String?
    /// The assertion's `jti`. It is spent only if the token is issued.
    public let assertion: SingleUse
    /// The life of the token in seconds. It ends no later than that of its parent.
    public let life: Int64
    /// Whether devices without a person are refused.
    public let needsPerson: Bool
    /// The first version of each app that is admitted.
    public let minimumVersions: [AppID: AppVersion]
    /// The version of the app that the assertion states.
    public let version: AppVersion?

    public init(
        token: Fingerprint, kind: FederationToken.Kind, key: KeyID, instance: KeyID, parent: Fingerprint? = nil,
        audience: String?, party: String? = nil, scope: [String]?, instanceScope: [String], thumbprint: String?,
        assertion: SingleUse, life: Int64, needsPerson: Bool = false, minimumVersions: [AppID: AppVersion] = [:],
        version: AppVersion? = nil
    ) {
        self.token = token
        self.kind = kind
        self.key = key
        self.instance = instance
        self.parent = parent
        self.audience = audience
        self.party = party
        self.scope = scope
        self.instanceScope = instanceScope
        self.thumbprint = thumbprint
        self.assertion = assertion
        self.life = life
        self.needsPerson = needsPerson
        self.minimumVersions = minimumVersions
        self.version = version
    }
}

/// The exchange of a code for a token, by a service that was authenticated.
public struct CodeExchange: Sendable {
    /// SHA-256 of the code.
    public let code: Fingerprint
    /// SHA-256 of the new token.
    public let token: Fingerprint
    /// The URL of the service.
    public let audience: String
    /// The life of the token in seconds.
    public let life: Int64

    public init(code: Fingerprint, token: Fingerprint, audience: String, life: Int64) {
        self.code = code
        self.token = token
        self.audience = audience
        self.life = life
    }
}

public enum TokenVerdict: Equatable, Sendable {
    case issued(FederationToken)
    case refused(TokenRefusal)
}

/// The reason why no token is issued.
public enum TokenRefusal: Equatable, Sendable, CaseIterable {
    case assertionUsed
    case assertionExpired
    /// The key was never bound to a device, or no longer is, or the device is not active.
    case instanceUnknown
    /// The device was admitted for no person.
    case personMissing
    /// The app is older than admitted, or does not state its version.
    case versionExcluded
    /// There is no such live token of this instance, or it cannot have the requested child.
    case parentInvalid
    case scopeExceeded
    /// No approved service has this URL.
    case serviceUnknown
    case tooManyTokens
    /// The code is unknown, expired, used, or of another service.
    case codeInvalid
}

/// Who revokes a token.
public enum TokenRevoker: Equatable, Sendable {
    /// An instance, which may revoke every token of its device.
    case instance(KeyID)
    /// A service, which may revoke tokens that are for its URL.
    case service(String)
    /// The holder of another token, which may revoke that one.
    case holder(Fingerprint)
}

public enum TokenRevocation: Equatable, Sendable {
    /// It is revoked now, with all that were derived from it, or was before.
    case revoked
    case unknown
    /// It is a token of others.
    case foreign
}

/// A service that has joined the federation. Times are in seconds since 1970-01-01T00:00:00Z.
public struct FederationService: Equatable, Sendable {
    /// A UUID in lower case.
    public let id: String
    public let name: String
    /// The home page, by which tokens name it.
    public let url: String
    public let tokenEndpoint: String
    /// The URL of its RSD2 document.
    public let descriptionURL: String
    public let info: String?
    /// The operator by whose token it joined. Nobody else may replace it.
    public let operatorName: String
    /// SHA-256 of its own token.
    public let secret: Fingerprint
    public let joinedAt: Int64
    /// Nil until an operator has approved it.
    public package(set) var approvedAt: Int64?
    /// Nil unless an operator has removed it.
    public package(set) var revokedAt: Int64?

    public init(
        id: String, name: String, url: String, tokenEndpoint: String, descriptionURL: String, info: String?,
        operatorName: String, secret: Fingerprint, joinedAt: Int64, approvedAt: Int64? = nil, revokedAt: Int64? = nil
    ) {
        self.id = id
        self.name = name
        self.url = url
        self.tokenEndpoint = tokenEndpoint
        self.descriptionURL = descriptionURL
        self.info = info
        self.operatorName = operatorName
        self.secret = secret
        self.joinedAt = joinedAt
        self.approvedAt = approvedAt
        self.revokedAt = revokedAt
    }

    public var isActive: Bool { approvedAt != nil && revokedAt == nil }

    /// Whether both describe the same service at the same places.
    func hasSamePlaces(as other: FederationService) -> Bool {
        (url, tokenEndpoint, descriptionURL) == (other.url, other.tokenEndpoint, other.descriptionURL)
    }

    /// The maximum of services.
    public static let limit = 1_000
}

public enum ServiceSelector: Equatable, Sendable {
    case id(String)
    case url(String)
    case secret(Fingerprint)
}

public enum ServiceVerdict: Equatable, Sendable {
    case service(FederationService)
    /// Another service has this URL.
    case urlTaken
    /// Another operator's service has this id.
    case idTaken
    case tooMany
    case unknown
}
