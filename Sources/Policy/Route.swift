public import HTTP

/// A route: the requests it matches, their requirement and their upstream.
public struct Route: Sendable {
    public let name: String
    /// The host in lower case, without a port.
    public let host: [UInt8]
    /// `/`, or a path without a slash at its end. It matches itself and all paths below it.
    public let prefix: [UInt8]
    public let methods: MethodSet
    public let requirement: Requirement
    /// The percentage of devices on which the requirement is enforced: 0 to 100. Requests of the others are forwarded
    /// without an identity if only an observable denial is against them.
    public let enforcedPercent: Int
    /// The index of the policy that devices must satisfy; nil for none.
    public let policy: Int?
    /// The apps whose devices are permitted. Irrelevant if no device is required.
    public let apps: AppSet
    /// Names of fields in lower case that a proof must cover, in addition to those of the protocol.
    public let components: [String]
    /// Index of the upstream in the generation's list.
    public let upstream: Int
    /// Limit of a request's content in bytes.
    public let contentLimit: UInt64
    /// Limit of a pause within a request's content, in milliseconds. Nil for the general limit.
    public let contentIdle: Int64?
    /// The handling of content. Irrelevant without a required proof, because nothing could be compared with the
    /// content.
    public let body: BodyHandling
    /// Whether a request may open a WebSocket.
    public let webSocket: Bool
    /// In lower case: names of fields with characters other than letters, digits and `-` that requests may have all the same.
    public let unusualNames: [[UInt8]]
    /// The forms of targets that requests may have beyond the strict spelling.
    public let targetForms: TargetForms
    /// What the service learns of the device beyond its pseudonym.
    public let identity: IdentityFields
    /// The demand for device tokens. None where no certificate is required.
    public let deviceToken: DeviceTokenDemand
    /// Whether refusals by device tokens and policies have the form of the reference system's enforcement point.
    public let answersAsReference: Bool

    public init(
        name: String, host: String, prefix: String, methods: MethodSet, requirement: Requirement,
        enforcedPercent: Int = 100, policy: Int? = nil, apps: AppSet = .none, components: [String] = [], upstream: Int,
        contentLimit: UInt64,
        contentIdle: Int64? = nil, body: BodyHandling = .collected, webSocket: Bool = false,
        unusualNames: [String] = [], targetForms: TargetForms = [], identity: IdentityFields = [],
        deviceToken: DeviceTokenDemand = .none, answersAsReference: Bool = false
    ) {
        self.name = name
        self.host = Array(host.lowercased().utf8)
        self.prefix = Array(prefix.utf8)
        self.methods = methods
        self.requirement = requirement
        self.enforcedPercent = enforcedPercent
        self.policy = policy
        self.apps = apps
        self.components = components
        self.upstream = upstream
        self.contentLimit = contentLimit
        self.contentIdle = contentIdle
        self.body = body
        self.webSocket = webSocket
        self.unusualNames = unusualNames.map { Array($0.lowercased().utf8) }
        self.targetForms = targetForms
        self.identity = identity
        self.deviceToken = deviceToken
        self.answersAsReference = answersAsReference
    }

    /// Whether the requirement is not enforced on every device.
    public var isObserved: Bool { enforcedPercent < 100 }

    /// Whether every field with an unusual name is one that the route admits.
    ///
    /// - Parameter bytes: what the ranges of `head` refer to.
    func admitsNames(of head: RequestHead, _ bytes: Span<UInt8>) -> Bool {
        guard head.hasUnusualNames else { return true }
        for field in head.fields where field.hasUnusualName {
            let name = field.nameRange.of(bytes)
            guard unusualNames.contains(where: { name.equals(lowercase: $0) }) else { return false }
        }
        return true
    }

    /// Returns whether the prefix covers a path. It ends at the end of a segment: `/a` covers `/a` and `/a/b`, but not
    /// `/ab`.
    func covers(_ path: Span<UInt8>) -> Bool {
        guard prefix.count > 1 else { return true }
        guard path.count >= prefix.count, path.extracting(first: prefix.count).equals(prefix.span) else { return false }
        return path.count == prefix.count || path[prefix.count] == UInt8(ascii: "/")
    }
}

/// Whether a route demands device tokens.
public enum DeviceTokenDemand: Sendable {
    /// A token is removed unread.
    case none
    /// A request may have one. It must be valid.
    case optional
    case required
}

/// The fields about a device that a route sends to its service beyond those that all services receive.
public struct IdentityFields: OptionSet, Sendable {
    public let rawValue: UInt8

    public init(rawValue: UInt8) {
        self.rawValue = rawValue
    }

    /// `Attest-Subject`: the pseudonym of the person.
    public static let subject = IdentityFields(rawValue: 1)
    /// `Attest-Posture`: the facts that are known of the device.
    public static let posture = IdentityFields(rawValue: 2)
}

/// The requirement for forwarding a request. From `certificate` on, each level includes the one before.
public enum Requirement: Sendable {
    /// Nothing: the client may have no certificate. One that it has is judged all the same.
    case nothing
    /// An attester's statement about the client's key, and a new proof of possession of that key. As with `nothing`, the
    /// client may have no certificate.
    case clientAttestation
    /// A valid client certificate.
    case certificate
    /// A device whose binding includes the certificate's key. It is active and of an app that the route permits.
    case device
    /// A proof by the device's app for exactly this request, used for the first time.
    case requestProof

    /// Whether a certificate is required.
    public var includesCertificate: Bool { self != .nothing && self != .clientAttestation }

    /// Whether a device is required.
    public var includesDevice: Bool {
        switch self {
        case .nothing, .clientAttestation, .certificate: false
        case .device, .requestProof: true
        }
    }
}

/// The time at which the content of a request with a proof is forwarded.
public enum BodyHandling: Sendable {
    /// After all content has arrived and matches the proof.
    case collected
    /// As it arrives. The last byte is held back until the whole content matches the proof.
    case streamed
}

/// A set of configured apps, by their index in the configuration.
public struct AppSet: Equatable, Sendable {
    /// Whether the app at each index is included.
    private let members: [Bool]

    public static let none = AppSet(places: [], of: 0)

    /// Creates a set.
    ///
    /// - Parameters:
    ///   - places: Indices below `count`.
    ///   - count: The number of configured apps.
    public init(places: some Sequence<Int>, of count: Int) {
        var members = [Bool](repeating: false, count: count)
        for place in places { members[place] = true }
        self.members = members
    }

    /// A copy that shares no memory with this one.
    public var unshared: AppSet { AppSet(places: members.indices.filter { members[$0] }, of: members.count) }

    public func contains(_ place: Int) -> Bool { members.indices.contains(place) && members[place] }
}
