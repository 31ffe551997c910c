internal import Bytes
internal import Cryptography
internal import Encoding
internal import HTTP
internal import Policy
internal import Registry
internal import Vocabulary

/// What a decision point learns of a request.
extension ForwardingExchange {
    /// Returns the question about the request, with the facts that the settings name.
    ///
    /// - Throws: `facts` if a pseudonym cannot be computed, or the device's record has left the memory.
    func question(_ settings: DecisionSettings) throws(InquiryFailure) -> DecisionQuestion {
        guard let route = request.decision.route.map({ gateway.routes.routes[$0] }),
            let enforcement = gateway.enforcement, let client = clientOfQuestion(route, enforcement)
        else { throw .facts }
        let facts = settings.facts
        let bytes = headBytes.readable
        let head = head
        // What is decided about must be what the service reads.
        if settings.readsPath, head.targetForms.concernPath {
            let path = head.path.of(bytes)
            let readings = TargetSpelling.readings(of: path, with: head.targetForms)
            guard readings.allSatisfy({ $0.span.isEqual(to: path) }) else { throw .question(.pathAmbiguous) }
        }
        var question = DecisionQuestion(
            method: head.routedMethod.map { String(describing: $0.name) } ?? "", route: route.name,
            host: String(decoding: route.host, as: UTF8.self), path: Self.text(head.path.of(bytes)),
            query: head.query.map { Self.text($0.of(bytes)) }, client: client)
        if let device = request.decision.device {
            let app = enforcement.apps[request.decision.app]
            question.app = AppID(String(decoding: app.id, as: UTF8.self))
            question.appDigest = app.rpIDHash.bytes
            question.platform = device.platform
            guard let posture = enforcement.posture(of: device)?.posture else { throw .facts }
            question.posture = posture
            question.person = posture.subject.flatMap {
                enforcement.pseudonym(ofPerson: $0, for: route.upstream)
            }
        }
        if let token = tokenOfQuestion(settings) { question.tokenClaims = token.claims }
        if facts.contains(.clientNetwork) {
            question.network = String(decoding: ClientNetwork.text(of: origin.peer), as: UTF8.self)
        }
        forEachField(in: settings, head, bytes) { name, value in
            question.fields.append((name: name, value: Self.text(value)))
        }
        return question
    }

    /// Returns the request's device token if the decision point is sent its claims.
    private func tokenOfQuestion(_ settings: DecisionSettings) -> DeviceTokens.Verified? {
        settings.readsDeviceToken ? request.deviceToken : nil
    }

    /// Whether an answer depends on more of the request than its key.
    func varies(_ settings: DecisionSettings) -> Bool { settings.isVarying || tokenOfQuestion(settings) != nil }

    private func clientOfQuestion(_ route: Route, _ enforcement: Enforcement) -> DecisionQuestion.Client? {
        if let device = request.decision.device {
            return (try? enforcement.pseudonym(of: device, for: route.upstream)).map {
                .device(Hexadecimal.encode($0.bytes))
            }
        }
        guard let key = client.shareKey else { return nil }
        return (try? enforcement.pseudonym(ofKey: key, for: route.upstream)).map {
            .certificate(Hexadecimal.encode($0.bytes))
        }
    }

    /// What every answer about the request depends on. Nil if nothing may be kept.
    var answerKey: AnswerKey? {
        guard let route = request.decision.route, let key = client.shareKey, let method = routedMethod else {
            return nil
        }
        return AnswerKey(
            route: route, method: method.rawValue, client: key,
            generation: request.decision.device?.postureGeneration ?? 0)
    }

    /// Returns what an answer depends on besides, with a separator after each fact.
    func varyingFacts(_ settings: DecisionSettings) -> [UInt8] {
        var facts: [UInt8] = []
        let bytes = headBytes.readable
        let head = head
        func add(_ span: Span<UInt8>) {
            for index in span.indices { facts.append(span[index]) }
            facts.append(0)
        }
        if settings.readsPath { add(head.path.of(bytes)) }
        if settings.facts.contains(.query), let query = head.query { add(query.of(bytes)) }
        if let token = tokenOfQuestion(settings) { facts += token.digest.bytes }
        if settings.facts.contains(.clientNetwork) { facts += ClientNetwork.text(of: origin.peer) + [0] }
        forEachField(in: settings, head, bytes) { name, value in
            facts += Array(name.utf8) + [0]
            add(value)
        }
        return facts
    }

    /// Passes on the request's fields that the settings name, with their names in lower case.
    private func forEachField(
        in settings: DecisionSettings, _ head: RequestHead, _ bytes: Span<UInt8>,
        _ body: (_ name: String, _ value: Span<UInt8>) -> Void
    ) {
        guard !settings.headers.isEmpty else { return }
        for index in head.fields.indices {
            let field = head.fields[index]
            let name = field.nameRange.of(bytes)
            for sent in settings.headers where name.equals(lowercase: Array(sent.utf8)) {
                body(sent, field.valueRange.of(bytes))
            }
        }
    }

    private static func text(_ bytes: Span<UInt8>) -> String {
        var copy: [UInt8] = []
        for index in bytes.indices { copy.append(bytes[index]) }
        return String(decoding: copy, as: UTF8.self)
    }
}
