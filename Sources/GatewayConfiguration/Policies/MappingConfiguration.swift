public import Vocabulary

/// How AuthZEN's subject, action and resource are made.
public struct MappingConfiguration: Equatable, ConfigurationSection {
    /// Nil for the device, or the certificate of a client without one.
    @Setting(.section(EntityConfiguration.section.at("decision_points.mapping.subject")), "The subject.")
    public var subject: EntityConfiguration?
    @Setting(.section, default: "{}", "The names of actions by method; by default the method.")
    public var action: ActionMappingConfiguration
    /// Nil for the route.
    @Setting(.section(EntityConfiguration.section.at("decision_points.mapping.resource")), "The resource.")
    public var resource: EntityConfiguration?
    @Setting(
        .list(of: .section, minimum: 0, maximum: 64) { _, _ in }, default: "[]",
        "Paths with variables; the first that matches is used, and a request that none matches is denied.")
    public var templates: [TemplateConfiguration]

    static let section = Section("decision_points.mapping", of: Self.self)

    public var mapping: DecisionMapping {
        DecisionMapping(
            subject: subject?.entity, actions: action.names, resource: resource?.entity,
            templates: templates.map {
                DecisionMapping.Template(path: $0.path, actions: $0.action.names, resource: $0.resource?.entity)
            })
    }

    func check(_ item: Item, _ reading: Reading) -> Bool {
        guard isComplete else { return false }
        let entities =
            [("subject", subject), ("resource", resource)].map { ($0.0, item, $0.1) }
            + zip(templates, item["templates"]?.elements ?? []).map { ("resource", $1, $0.resource) }
        for (key, parent, entity) in entities {
            guard let entity, entity.id.needsTemplate else { continue }
            let known = templates.map(\.path.variables)
            let isKnown: Bool
            if case .variable(let name) = entity.id {
                let own = parent["path"]?.text.flatMap { PathTemplate($0)?.variables }
                isKnown = own.map { $0.contains(name) } ?? (!known.isEmpty && known.allSatisfy { $0.contains(name) })
            } else {
                isKnown = !known.isEmpty
            }
            guard !isKnown else { continue }
            reading.refuse(
                parent[key]?.place(of: "id") ?? parent.place, "not every path has this id",
                expected: "`templates`, each with the variable")
            return false
        }
        return true
    }
}

/// The type and id of a subject or resource.
public struct EntityConfiguration: Equatable, ConfigurationSection {
    @Setting(required: MappedText.kind, "The type.")
    public var type: String
    @Setting(
        required: .text(
            "one of: device, subject, app, route, host, path, path-template; `{NAME}` for a variable; `=TEXT` for a constant"
        ) { text throws(InvalidValue) in
            guard let id = DecisionIdentifier(text) else {
                throw InvalidValue(
                    "\(Printable.quoted(text)) is no id",
                    suggestion: Spelling.nearest(
                        to: text, among: ["device", "subject", "app", "route", "host", "path", "path-template"]))
            }
            return id
        }, "What its id is.")
    public var id: DecisionIdentifier

    static let section = Section("decision_points.mapping.entity", of: Self.self)

    fileprivate var entity: DecisionMapping.Entity { DecisionMapping.Entity(type: type, id: id) }
}

/// What is asked about paths of one form.
public struct TemplateConfiguration: Equatable, ConfigurationSection {
    @Setting(
        required: .text("a path with variables, such as `/todos/{id}`", matching: "^/") { text throws(InvalidValue) in
            guard let path = PathTemplate(text) else {
                throw InvalidValue("\(Printable.quoted(text)) is no path with variables that are whole segments")
            }
            let reserved = path.variables.first(where: DecisionMapping.reservedVariables.contains)
            if let reserved { throw InvalidValue("the variable `{\(reserved)}` has the name of another property") }
            return path
        }, "The form of the path.")
    public var path: PathTemplate
    @Setting(
        .section(ActionMappingConfiguration.section.at("decision_points.mapping.templates.action")), default: "{}",
        "The names of actions by method.")
    public var action: ActionMappingConfiguration
    @Setting(.section(EntityConfiguration.section.at("decision_points.mapping.templates.resource")), "The resource.")
    public var resource: EntityConfiguration?

    static let section = Section("decision_points.mapping.templates", of: Self.self)
}

public struct ActionMappingConfiguration: Equatable, ConfigurationSection {
    @Setting(key: "GET", MappedText.kind, "The name of the action for GET.")
    var get: String?
    @Setting(key: "HEAD", MappedText.kind, "The name of the action for HEAD.")
    var head: String?
    @Setting(key: "POST", MappedText.kind, "The name of the action for POST.")
    var post: String?
    @Setting(key: "PUT", MappedText.kind, "The name of the action for PUT.")
    var put: String?
    @Setting(key: "PATCH", MappedText.kind, "The name of the action for PATCH.")
    var patch: String?
    @Setting(key: "DELETE", MappedText.kind, "The name of the action for DELETE.")
    var delete: String?
    @Setting(key: "OPTIONS", MappedText.kind, "The name of the action for OPTIONS.")
    var options: String?

    static let section = Section("decision_points.mapping.action", of: Self.self)

    /// The names by method.
    fileprivate var names: [String: String] {
        let names = [
            "GET": get, "HEAD": head, "POST": post, "PUT": put, "PATCH": patch, "DELETE": delete, "OPTIONS": options,
        ]
        return names.compactMapValues(\.self)
    }
}

/// A type or name of AuthZEN.
private enum MappedText {
    static var kind: Kind<String> {
        .text("a text of 1 to 128 printable characters") { text throws(InvalidValue) in
            guard (1...128).contains(text.utf8.count), text.utf8.allSatisfy({ (0x20...0x7e).contains($0) }) else {
                throw InvalidValue("\(Printable.quoted(text)) is no such text")
            }
            return text
        }
    }
}
