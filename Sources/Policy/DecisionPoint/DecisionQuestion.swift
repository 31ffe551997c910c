public import Registry
public import Vocabulary

/// What is known of a request, of which a decision point is sent what its settings name.
public struct DecisionQuestion: Sendable {
    /// The client, by a pseudonym that is the decision point's own.
    public enum Client: Equatable, Sendable {
        case device(String)
        /// A client without a device.
        case certificate(String)
    }

    public var method: String
    public var route: String
    /// In lower case, without a port.
    public var host: String
    /// As the request has it.
    public var path: String
    /// Without the question mark. Nil for none.
    public var query: String?
    /// The fields that the settings name, in the order of the request, after the rules for protected fields.
    public var fields: [(name: String, value: String)] = []
    public var client: Client
    /// The pseudonym of the person to whom the device belongs.
    public var person: String?
    public var app: AppID?
    public var platform: Platform?
    public var posture: Posture?
    /// The client's address, or the network that limits count it by.
    public var network: String?

    // MARK: - Only in the input of the reference system

    /// The claims of the request's device token, an object in JSON.
    public var tokenClaims: [UInt8]?
    /// The SHA-256 of the app id.
    public var appDigest: [UInt8]?
    /// The country of the client's address, if something in front of the gateway states it.
    public var country: String?

    public init(method: String, route: String, host: String, path: String, query: String? = nil, client: Client) {
        self.method = method
        self.route = route
        self.host = host
        self.path = path
        self.query = query
        self.client = client
    }
}

/// The protocol of a decision point.
public enum DecisionFormat: Equatable, Sendable, CaseIterable {
    /// OpenID AuthZEN, Authorization API 1.0.
    case authzen
    /// OPA's data API.
    case opa
    /// OPA's data API with input and result of the reference system's policies.
    case opaReference
}

/// The facts that a decision point is sent.
public struct DecisionFacts: OptionSet, Hashable, Sendable {
    public let rawValue: UInt16

    public init(rawValue: UInt16) {
        self.rawValue = rawValue
    }

    public static let method = DecisionFacts(rawValue: 1)
    public static let route = DecisionFacts(rawValue: 2)
    public static let host = DecisionFacts(rawValue: 4)
    public static let device = DecisionFacts(rawValue: 8)
    public static let app = DecisionFacts(rawValue: 16)
    public static let platform = DecisionFacts(rawValue: 32)
    public static let posture = DecisionFacts(rawValue: 64)
    public static let subject = DecisionFacts(rawValue: 128)
    public static let clientNetwork = DecisionFacts(rawValue: 256)
    public static let path = DecisionFacts(rawValue: 512)
    public static let query = DecisionFacts(rawValue: 1024)

    /// The facts with the names of the conf file, in its order.
    public static let named: [(facts: DecisionFacts, name: String)] = [
        (.method, "method"), (.route, "route"), (.host, "host"), (.device, "device"), (.app, "app"),
        (.platform, "platform"), (.posture, "posture"), (.subject, "subject"), (.clientNetwork, "client_network"),
        (.path, "path"), (.query, "query"),
    ]

    /// All but path and query.
    public static let standard: DecisionFacts = [
        .method, .route, .host, .device, .app, .platform, .posture, .subject, .clientNetwork,
    ]
}

/// What a decision point is sent, and in which form.
public struct DecisionSettings: Sendable {
    public let format: DecisionFormat
    public let facts: DecisionFacts
    /// The names of fields in lower case, without secret ones.
    public let headers: [String]
    /// Only for AuthZEN.
    public let mapping: DecisionMapping

    /// Whether the document has the claims of a device token, which state all of these facts.
    public var readsDeviceToken: Bool {
        format == .opaReference && facts.isSuperset(of: [.device, .app, .platform, .posture, .subject])
    }

    /// Whether the document depends on the path.
    public var readsPath: Bool { facts.contains(.path) || !mapping.isFixed }

    /// Whether the document depends on more of a request than its route, method and client.
    public var isVarying: Bool {
        !facts.isDisjoint(with: [.path, .query, .clientNetwork]) || !headers.isEmpty || !mapping.isFixed
    }

    /// Creates settings.
    ///
    /// - Parameter headers: Names in any case. Secret ones are left out.
    public init(
        format: DecisionFormat, facts: DecisionFacts = .standard, headers: [String] = [],
        mapping: DecisionMapping = .none
    ) {
        self.format = format
        self.facts = facts
        self.headers = headers.map { $0.lowercased() }.filter { !ProtectedFields.isSecret($0) }
        self.mapping = mapping
    }
}

/// The reason why a request cannot be put to a decision point. The request is denied.
public enum QuestionFault: Error, Equatable, Sendable {
    /// The mapping demands an id of the subject that is not known of the client.
    case subjectUnknown
    /// No template matches the path, or the id of the resource is not known.
    case resourceUnknown
    /// Services may read the path in several ways, and the question depends on it.
    case pathAmbiguous

    public var reason: StaticString {
        switch self {
        case .subjectUnknown: "the subject of the mapping is not known"
        case .resourceUnknown: "the resource of the mapping is not known: no template matches the path"
        case .pathAmbiguous: "the path can be read in several ways"
        }
    }
}
