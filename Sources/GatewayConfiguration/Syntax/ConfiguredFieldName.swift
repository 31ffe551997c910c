internal import Vocabulary

/// Names of request fields in lower case: fields to remove, to forward, or to cover by a proof.
enum ConfiguredFieldName {
    static let expected = "the name of a request field that is not part of the message framing"
    static let expectedComponent = "the name of a request field in lower case that is not part of the message framing"
    static let expectedForwarded = "the name of a request field that is otherwise removed or refused"
    static let expectedSent = "the name of a request field that has no secret, no proof and no word of another proxy"
    static let expectedUnusual = "the name of a request field with other characters than letters, digits and -"

    /// Fields without which a message has no end, no host or another meaning.
    private static let needed: Set<String> = [
        "connection", "content-length", "expect", "host", "te", "trailer", "transfer-encoding", "upgrade",
    ]

    /// Fields that carry the proof (RFC 9421 section 4), which cannot cover itself.
    private static let proof: Set<String> = ["signature", "signature-input"]

    /// Parses the name of a field to remove.
    static func parse(_ text: String) throws(InvalidValue) -> String {
        try checkPlain(text, else: "does not need to be removed")
        guard !needed.contains(text.lowercased()) else {
            throw InvalidValue("\(Printable.quoted(text)) is part of the message framing and cannot be removed")
        }
        return text.lowercased()
    }

    /// Fields with another meaning than a client's certificate, besides those of proxies and `needed`.
    private static let meanings: [FieldPattern] =
        ProtectedFields.meaningful + ProtectedFields.refused + [
            "accept", "attest-*", "authorization", "cookie", "date", "forwarded", "origin", "range", "referer",
            "signature*", "traceparent", "tracestate", "via", "x-forwarded-for", "x-forwarded-host",
            "x-forwarded-port", "x-forwarded-proto", "x-real-ip", "x-request-id",
        ]

    /// Parses the name of a field in which a proxy states a client's certificate.
    static func parseCertificate(_ text: String) throws(InvalidValue) -> String {
        let name = try parse(text)
        guard !meanings.contains(where: { $0.matches(name) }) else {
            throw InvalidValue("\(Printable.quoted(text)) has another meaning than a client's certificate")
        }
        return name
    }

    /// Parses the name of a field that a proof covers. Components are in lower case (RFC 9421 section 2.1).
    static func parseComponent(_ text: String) throws(InvalidValue) -> String {
        try checkPlain(text, else: "cannot be covered")
        guard text == text.lowercased() else {
            throw InvalidValue("\(Printable.quoted(text)) is not in lower case", suggestion: text.lowercased())
        }
        guard !needed.contains(text) else {
            throw InvalidValue("\(Printable.quoted(text)) is part of the message framing and cannot be required")
        }
        guard !proof.contains(text) else {
            throw InvalidValue("\(Printable.quoted(text)) carries the proof, which cannot cover itself")
        }
        return text
    }

    /// Parses the name of a field to forward although it is protected.
    static func parseForwarded(_ text: String) throws(InvalidValue) -> String {
        try checkPlain(text, else: "cannot be forwarded")
        let name = text.lowercased()
        func isAmong(_ patterns: [FieldPattern]) -> Bool { patterns.contains { $0.matches(name) } }
        guard !isAmong(ProtectedFields.own) else {
            throw InvalidValue("\(Printable.quoted(text)) is the gateway's own: a client's is never forwarded")
        }
        guard isAmong(ProtectedFields.removed) || isAmong(ProtectedFields.refused) else {
            throw InvalidValue("\(Printable.quoted(text)) is not a field that is always removed or refused")
        }
        return name
    }

    /// Parses the name of a field that a decision point learns.
    static func parseSent(_ text: String) throws(InvalidValue) -> String {
        try checkPlain(text, else: "cannot be sent")
        let name = text.lowercased()
        guard !needed.contains(name) else {
            throw InvalidValue("\(Printable.quoted(text)) is part of the message framing")
        }
        guard !ProtectedFields.isSecret(name) else {
            throw InvalidValue("\(Printable.quoted(text)) may have a secret or a proof, which no decision point learns")
        }
        guard !(ProtectedFields.own + ProtectedFields.removed).contains(where: { $0.matches(name) }) else {
            throw InvalidValue("\(Printable.quoted(text)) is always removed: a client's is not believed")
        }
        return name
    }

    /// Parses the name of a field to forward although its name is unusual.
    static func parseUnusual(_ text: String) throws(InvalidValue) -> String {
        try check(text)
        guard !isPlain(text) else {
            throw InvalidValue("\(Printable.quoted(text)) has only letters, digits and `-`: no route needs to admit it")
        }
        guard !ProtectedFields.isSpelling(text) else {
            throw InvalidValue(confusion(of: Printable.quoted(text), with: ProtectedFields.plain(text)))
        }
        return text.lowercased()
    }

    /// Returns the message about a name that resembles a protected field.
    ///
    /// - Parameters:
    ///   - name: the name as the message shows it.
    ///   - protected: the protected field.
    static func confusion(of name: String, with protected: String) -> String {
        "a service can take \(name) for `\(protected)`, which is protected"
    }

    private static func check(_ text: String) throws(InvalidValue) {
        guard (1...256).contains(text.utf8.count), text.utf8.allSatisfy(isTokenCharacter) else {
            throw InvalidValue("\(Printable.quoted(text)) is not the name of a field")
        }
    }

    private static func checkPlain(_ text: String, else consequence: String) throws(InvalidValue) {
        try check(text)
        guard isPlain(text) else {
            throw InvalidValue(
                "\(Printable.quoted(text)) \(consequence): names have letters, digits and `-` only")
        }
    }

    private static func isPlain(_ text: String) -> Bool {
        text.lowercased().utf8.allSatisfy(ConfiguredName.isCharacter)
    }

    /// Returns whether the byte is a `tchar` (RFC 9110 section 5.6.2).
    private static func isTokenCharacter(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): true
        default: ConfiguredName.isCharacter(byte) || "!#$%&'*+.^_`|~".utf8.contains(byte)
        }
    }
}
