public import HTTP

/// One route: which requests it takes, what they must show, and where they go.
public struct Route: Sendable {
    public let name: String
    /// Lower case, without a port.
    public let host: [UInt8]
    /// `/`, or a path without a slash at its end; matches itself and what lies below it.
    public let prefix: [UInt8]
    public let methods: MethodSet
    public let requirement: Requirement
    /// The apps whose devices are admitted. Without meaning where a certificate is enough.
    public let apps: AppSet
    /// Names of fields, in lower case, that a proof must cover besides what the protocol demands.
    public let components: [String]
    /// Index of the upstream in the generation's list.
    public let upstream: Int
    /// Largest content of a request, in octets.
    public let contentLimit: UInt64
    /// How long a client may pause within the content of a request, in milliseconds; nil: as everywhere.
    public let contentIdle: Int64?
    /// Without meaning where no proof is demanded: nothing could be compared with the content there.
    public let body: BodyHandling
    /// Whether a request may open a WebSocket.
    public let webSocket: Bool
    /// In lower case: names of fields with characters other than letters, digits and `-` that requests may have all the same.
    public let unusualNames: [[UInt8]]

    public init(
        name: String, host: String, prefix: String, methods: MethodSet, requirement: Requirement,
        apps: AppSet = .none, components: [String] = [], upstream: Int, contentLimit: UInt64,
        contentIdle: Int64? = nil, body: BodyHandling = .collected, webSocket: Bool = false,
        unusualNames: [String] = []
    ) {
        self.name = name
        self.host = Array(host.lowercased().utf8)
        self.prefix = Array(prefix.utf8)
        self.methods = methods
        self.requirement = requirement
        self.apps = apps
        self.components = components
        self.upstream = upstream
        self.contentLimit = contentLimit
        self.contentIdle = contentIdle
        self.body = body
        self.webSocket = webSocket
        self.unusualNames = unusualNames.map { Array($0.lowercased().utf8) }
    }

    /// Whether every field with an unusual name is one that the route admits.
    ///
    /// - Parameter bytes: what the ranges of `head` refer to.
    public func admitsNames(of head: RequestHead, _ bytes: Span<UInt8>) -> Bool {
        guard head.hasUnusualNames else { return true }
        for field in head.fields where field.hasUnusualName {
            let name = field.nameRange.of(bytes)
            guard unusualNames.contains(where: { name.equals(lowercase: $0) }) else { return false }
        }
        return true
    }

    /// A prefix ends where a segment ends: `/a` covers `/a` and `/a/b`, not `/ab`.
    func covers(_ path: Span<UInt8>) -> Bool {
        guard prefix.count > 1 else { return true }
        guard path.count >= prefix.count, path.extracting(first: prefix.count).equals(prefix.span) else { return false }
        return path.count == prefix.count || path[prefix.count] == UInt8(ascii: "/")
    }
}

/// What a request must show before it is forwarded; each level demands what the one before does.
public enum Requirement: Sendable {
    /// A valid client certificate.
    case certificate
    /// That its key is bound to an active device, of an app that the route admits.
    case device
    /// That the device's app made a proof for exactly this request, and that it is used for the first time.
    case requestProof
}

/// When the content of a request with a proof is forwarded to the upstream.
public enum BodyHandling: Sendable {
    /// When all of it has come and is what the proof says.
    case collected
    /// As it comes, but for its last byte, which waits until all of it is known to be what the proof says.
    case streamed
}

/// A set of configured apps, by their place in the configuration.
public struct AppSet: Equatable, Sendable {
    /// Whether the app at each place is in.
    private let members: [Bool]

    public static let none = AppSet(places: [], of: 0)

    /// - Parameters:
    ///   - places: all below `count`.
    ///   - count: how many apps there are.
    public init(places: some Sequence<Int>, of count: Int) {
        var members = [Bool](repeating: false, count: count)
        for place in places { members[place] = true }
        self.members = members
    }

    /// A copy that shares no memory with this one.
    public var unshared: AppSet { AppSet(places: members.indices.filter { members[$0] }, of: members.count) }

    public func contains(_ place: Int) -> Bool { members.indices.contains(place) && members[place] }
}
