internal import Encoding
internal import Registry
internal import Vocabulary

extension DecisionQuestion {
    /// Returns the content of the request to a decision point: an object in JSON, the same for equal questions.
    ///
    /// It contains no fact that the settings do not name, except the three ids that AuthZEN demands. A fact that is not
    /// known is left out.
    public func document(by settings: DecisionSettings) throws(QuestionFault) -> [UInt8] {
        switch settings.format {
        case .authzen: try evaluationRequest(by: settings)
        case .opa: JSONWriter.object { $0.object("input", keepsEmpty: true) { writeInput(to: &$0, by: settings) } }
        case .opaReference:
            JSONWriter.object { $0.object("input", keepsEmpty: true) { writeReferenceInput(to: &$0, by: settings) } }
        }
    }

    // MARK: - OPA

    private func writeInput(to input: inout JSONWriter, by settings: DecisionSettings) {
        let facts = settings.facts
        if facts.contains(.method) { input.member("method", method) }
        if facts.contains(.route) { input.member("route", route) }
        writeTarget(to: &input, by: settings)
        writeHeaders(to: &input, by: settings) { $0 }
        if facts.contains(.device) {
            switch client {
            case .device(let id): input.member("device", id)
            case .certificate(let id): input.member("certificate", id)
            }
        }
        writeClient(to: &input, by: settings)
        if facts.contains(.clientNetwork) { input.member("client_network", network) }
    }

    private func writeTarget(to object: inout JSONWriter, by settings: DecisionSettings) {
        if settings.facts.contains(.host) { object.member("host", host) }
        if settings.facts.contains(.path) { object.member("path", path) }
        if settings.facts.contains(.query) { object.member("query", query) }
    }

    private func writeClient(to object: inout JSONWriter, by settings: DecisionSettings) {
        let facts = settings.facts
        if facts.contains(.subject) { object.member("subject", person) }
        if facts.contains(.app) { object.member("app", app?.description) }
        if facts.contains(.platform) { object.member("platform", platform?.rawValue) }
        guard facts.contains(.posture), let posture else { return }
        object.object("posture") { posture.write(to: &$0) }
    }

    /// Writes the member `headers`: lists of values by name, in the order of the settings.
    ///
    /// - Parameter spelling: Returns the name to be written for one in lower case.
    func writeHeaders(
        to object: inout JSONWriter, by settings: DecisionSettings, keepsEmpty: Bool = false,
        spelling: (String) -> String
    ) {
        object.object("headers", keepsEmpty: keepsEmpty) { object in
            for name in settings.headers {
                let values = fields.filter { $0.name.lowercased() == name }.map(\.value)
                if !values.isEmpty { object.member(spelling(name), values) }
            }
        }
    }

    // MARK: - AuthZEN

    private func evaluationRequest(by settings: DecisionSettings) throws(QuestionFault) -> [UInt8] {
        let mapping = settings.mapping
        var match: (template: DecisionMapping.Template, variables: [(name: String, value: String)])?
        if !mapping.templates.isEmpty {
            for template in mapping.templates {
                guard let variables = template.path.match(path) else { continue }
                match = (template, variables)
                break
            }
            guard match != nil else { throw .resourceUnknown }
        }

        func id(_ source: DecisionIdentifier) -> String? {
            switch source {
            case .device: if case .device(let id) = client { id } else { nil }
            case .subject: person
            case .app: app?.description
            case .route: route
            case .host: host
            case .path: path
            case .pathTemplate: match?.template.path.text
            case .variable(let name): match?.variables.first { $0.name == name }?.value
            case .text(let text): text
            }
        }

        let subject: (type: String, id: String)
        if let entity = mapping.subject {
            guard let id = id(entity.id) else { throw .subjectUnknown }
            subject = (entity.type, id)
        } else {
            switch client {
            case .device(let id): subject = ("device", id)
            case .certificate(let id): subject = ("certificate", id)
            }
        }
        let target = match?.template.resource ?? mapping.resource ?? DecisionMapping.Entity(type: "route", id: .route)
        guard let targetID = id(target.id) else { throw .resourceUnknown }
        let action = match?.template.actions[method] ?? mapping.actions[method] ?? method

        return JSONWriter.object { request in
            request.object("subject") { object in
                object.member("type", subject.type)
                object.member("id", subject.id)
                object.object("properties") { object in
                    if mapping.subject != nil, settings.facts.contains(.device) {
                        switch client {
                        case .device(let id): object.member("device", id)
                        case .certificate(let id): object.member("certificate", id)
                        }
                    }
                    writeClient(to: &object, by: settings)
                }
            }
            request.object("action") { object in
                object.member("name", action)
                object.object("properties") { object in
                    if action != method, settings.facts.contains(.method) { object.member("method", method) }
                }
            }
            request.object("resource") { object in
                object.member("type", target.type)
                object.member("id", targetID)
                object.object("properties") { object in
                    if target.id != .route, settings.facts.contains(.route) { object.member("route", route) }
                    writeTarget(to: &object, by: settings)
                    guard settings.facts.contains(.path), let variables = match?.variables else { return }
                    for (name, value) in variables where !DecisionMapping.reservedVariables.contains(name) {
                        object.member(name, value)
                    }
                }
            }
            request.object("context") { object in
                if settings.facts.contains(.clientNetwork) { object.member("client_network", network) }
                writeHeaders(to: &object, by: settings) { $0 }
            }
        }
    }
}
