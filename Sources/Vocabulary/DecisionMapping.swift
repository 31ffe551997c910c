/// How a decision point of AuthZEN is asked, where its policies know other names than the gateway.
public struct DecisionMapping: Equatable, Sendable {
    /// The type and id of a subject or a resource.
    public struct Entity: Equatable, Sendable {
        public let type: String
        public let id: DecisionIdentifier

        public init(type: String, id: DecisionIdentifier) {
            self.type = type
            self.id = id
        }
    }

    /// What is asked about the paths of a template.
    public struct Template: Equatable, Sendable {
        public let path: PathTemplate
        /// The name of the action by method. Other methods have that of the mapping.
        public let actions: [String: String]
        /// Nil for that of the mapping.
        public let resource: Entity?

        public init(path: PathTemplate, actions: [String: String] = [:], resource: Entity? = nil) {
            self.path = path
            self.actions = actions
            self.resource = resource
        }
    }

    /// Nil for the device, or the certificate of a client without one.
    public let subject: Entity?
    /// The name of the action by method. The name for other methods is the method.
    public let actions: [String: String]
    /// Nil for the route.
    public let resource: Entity?
    /// The first that matches the path counts. If there are any, nothing is asked about a path that none matches, and
    /// the request is denied.
    public let templates: [Template]

    /// Names that no variable of a template may have, since the resource has properties with these names.
    public static let reservedVariables: Set<String> = ["route", "host", "path", "query"]

    /// The mapping of a decision point without one: `device`, the method, `route`.
    public static let none = DecisionMapping()

    /// Whether nothing is made of the path.
    public var isFixed: Bool {
        guard templates.isEmpty else { return false }
        return [subject, resource].allSatisfy { $0?.id != .path }
    }

    public init(
        subject: Entity? = nil, actions: [String: String] = [:], resource: Entity? = nil, templates: [Template] = []
    ) {
        self.subject = subject
        self.actions = actions
        self.resource = resource
        self.templates = templates
    }
}

/// The source of an id.
public enum DecisionIdentifier: Equatable, Sendable {
    /// The pseudonym of the device.
    case device
    /// The pseudonym of the person.
    case subject
    case app
    case route
    case host
    /// The path as the request has it.
    case path
    /// The text of the template that matches the path.
    case pathTemplate
    /// The value of a template's variable.
    case variable(String)
    /// A constant.
    case text(String)

    /// Limit of a constant in bytes.
    public static let textLimit = 128

    /// Parses a source.
    ///
    /// - Parameter text: `device`, `subject`, `app`, `route`, `host`, `path` or `path-template`; `{NAME}` for a
    ///   variable; `=TEXT` for a constant of printable ASCII.
    /// - Returns: nil for other texts.
    public init?(_ text: String) {
        switch text {
        case "device": self = .device
        case "subject": self = .subject
        case "app": self = .app
        case "route": self = .route
        case "host": self = .host
        case "path": self = .path
        case "path-template": self = .pathTemplate
        default:
            if text.hasPrefix("=") {
                let constant = text.utf8.dropFirst()
                guard (1...Self.textLimit).contains(constant.count), constant.allSatisfy({ (0x20...0x7e).contains($0) })
                else {
                    return nil
                }
                self = .text(String(text.dropFirst()))
            } else {
                guard let template = PathTemplate("/\(text)"), let name = template.variables.first,
                    template.text == "/{\(name)}"
                else { return nil }
                self = .variable(name)
            }
        }
    }

    /// Whether only a path that a template matches has it.
    public var needsTemplate: Bool {
        switch self {
        case .pathTemplate, .variable: true
        default: false
        }
    }
}
