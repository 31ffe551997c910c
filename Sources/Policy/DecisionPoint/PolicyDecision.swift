public import Encoding

/// The answer of a decision point. All texts are bounded, and safe to be shown.
public struct PolicyDecision: Equatable, Sendable {
    public let isAllowed: Bool
    /// Codes of what the request lacks, without duplicates: at most `violationLimit`, each of 1 to `codeLimit` printable
    /// ASCII characters without quotes and backslashes. Others of the answer are left out.
    public let violations: [String]
    /// A text for the client.
    public let userReason: String?
    /// A text for the log.
    public let adminReason: String?

    public static let violationLimit = 16
    public static let codeLimit = 64
    /// Limit of a reason in bytes.
    public static let reasonLimit = 256
    /// Limit of the content of an answer in bytes.
    public static let contentLimit = 64 << 10
    /// Limit of nested objects and arrays.
    public static let depthLimit = 32
    private static let memberLimit = 4096

    public init(isAllowed: Bool, violations: [String] = [], userReason: String? = nil, adminReason: String? = nil) {
        self.isAllowed = isAllowed
        self.violations = violations
        self.userReason = userReason
        self.adminReason = adminReason
    }

    /// Parses the answer of a decision point.
    ///
    /// - Parameters:
    ///   - contentType: The value of Content-Type. Nil if it is missing.
    ///   - content: The content after its transfer coding.
    public static func parse(
        status: UInt16, contentType: String?, content: Span<UInt8>, format: DecisionFormat
    ) -> Result<PolicyDecision, DecisionFault> {
        do throws(DecisionFault) {
            let object = try object(status: status, contentType: contentType, content: content)
            return .success(try format == .authzen ? evaluation(object) : result(object, format))
        } catch {
            return .failure(error)
        }
    }

    /// Returns the object that a decision point has answered with.
    static func object(
        status: UInt16, contentType: String?, content: Span<UInt8>
    ) throws(DecisionFault) -> JSONObject {
        guard status == 200 else { throw .status(status) }
        guard let contentType, isJSON(contentType) else { throw .contentType }
        guard content.count <= contentLimit else { throw .malformed(.tooLong) }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(content.count)
        for index in content.indices { bytes.append(content[index]) }
        do throws(JSONFault) {
            return try JSONReader.object(in: bytes, longest: contentLimit, most: memberLimit, deepest: depthLimit)
        } catch {
            throw .malformed(error)
        }
    }

    /// Whether a value of Content-Type is `application/json`, with any parameters.
    private static func isJSON(_ contentType: String) -> Bool {
        let type = contentType.prefix { $0 != ";" }.split { $0 == " " || $0 == "\t" }
        return type.count == 1 && type[0].lowercased() == "application/json"
    }

    // MARK: - AuthZEN

    private static func evaluation(_ object: JSONObject) throws(DecisionFault) -> PolicyDecision {
        guard let value = object["decision"] else { throw .decisionMissing }
        guard let isAllowed = value.boolean else { throw .decisionType }
        let context = object["context"]?.object
        return PolicyDecision(
            isAllowed: isAllowed, userReason: context?["reason_user"].flatMap(reason),
            adminReason: context?["reason_admin"].flatMap(reason))
    }

    /// Returns a reason: a text, or the one in English of an object of texts, else that of the first name.
    private static func reason(_ value: JSONValue) -> String? {
        if let text = value.text { return shown(text) }
        guard let members = value.object?.members, members.allSatisfy({ $0.value.text != nil }) else { return nil }
        let sorted = members.sorted { $0.name.lexicographicallyPrecedes($1.name) }
        let english =
            sorted.first { $0.name.elementsEqual("en".utf8) } ?? sorted.first { $0.name.starts(with: "en-".utf8) }
        return (english ?? sorted.first)?.value.text.flatMap(shown)
    }

    // MARK: - OPA

    private static func result(_ object: JSONObject, _ format: DecisionFormat) throws(DecisionFault) -> PolicyDecision {
        guard let result = object["result"] else { return PolicyDecision(isAllowed: false) }
        if format == .opa, let isAllowed = result.boolean { return PolicyDecision(isAllowed: isAllowed) }
        guard let result = result.object else { throw .resultType }
        var isAllowed = try allow(result)
        var entries = entries(result)
        var userEntries = entries
        for name in format == .opaReference ? ["device", "security"] : [] {
            guard let part = result[name] else { continue }
            guard let part = part.object else { throw .resultType }
            // An answer that contradicts itself is a denial.
            isAllowed = try allow(part) && isAllowed
            entries += self.entries(part)
            // The codes are for the client; what is said of security, such as a listed address, is not.
            if name == "device" { userEntries += self.entries(part) }
        }
        var codes: [String] = []
        for code in entries.compactMap(\.code) where codes.count < violationLimit && !codes.contains(code) {
            codes.append(code)
        }
        let descriptions = entries.compactMap(\.description).prefix(violationLimit)
        return PolicyDecision(
            isAllowed: isAllowed, violations: codes,
            userReason: result["reason_user"].flatMap(reason) ?? userEntries.lazy.compactMap(\.description).first,
            adminReason: result["reason_admin"].flatMap(reason)
                ?? shown(Array(descriptions.joined(separator: "; ").utf8)))
    }

    private static func allow(_ object: JSONObject) throws(DecisionFault) -> Bool {
        guard let value = object["allow"] else { throw .decisionMissing }
        guard let isAllowed = value.boolean else { throw .decisionType }
        return isAllowed
    }

    private struct Entry {
        let code: String?
        let description: String?
    }

    /// Returns the entries of `violations`: codes, or objects with a code and a description.
    private static func entries(_ object: JSONObject) -> [Entry] {
        guard case .array(let elements)? = object["violations"] else { return [] }
        return elements.map { element in
            let members = element.object
            let description = members?["errorDescription"] ?? members?["description"]
            return Entry(
                code: (element.text ?? members?["errorCode"]?.text).flatMap(code),
                description: description?.text.flatMap(shown))
        }
    }

    // MARK: - Texts

    private static func code(_ text: [UInt8]) -> String? {
        guard (1...codeLimit).contains(text.count),
            text.allSatisfy({ (0x20...0x7e).contains($0) && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\") })
        else { return nil }
        return String(decoding: text, as: UTF8.self)
    }

    /// Returns a text that JSON, logs and terminals show unchanged: without control and format characters, and with `'`
    /// and `/` for quotes and backslashes. It is cut at `reasonLimit`.
    ///
    /// - Returns: nil if nothing is left.
    private static func shown(_ text: [UInt8]) -> String? {
        var shown = String.UnicodeScalarView()
        var length = 0
        // Spaces at the beginning, and of several in a row all but the first, are left out.
        var followsSpace = true
        for scalar in String(decoding: text, as: UTF8.self).unicodeScalars {
            let replaced: Unicode.Scalar
            switch scalar.properties.generalCategory {
            case .control, .format, .surrogate, .privateUse, .unassigned, .lineSeparator, .paragraphSeparator,
                .spaceSeparator:
                replaced = " "
            default:
                switch scalar {
                case "\"": replaced = "'"
                case "\\": replaced = "/"
                default: replaced = scalar
                }
            }
            let isSpace = replaced == " "
            if isSpace, followsSpace { continue }
            let count = UTF8.width(replaced)
            guard length + count <= reasonLimit else { break }
            shown.append(replaced)
            length += count
            followsSpace = isSpace
        }
        if shown.last == " " { shown.removeLast() }
        return shown.isEmpty ? nil : String(shown)
    }

    /// Returns a reason in the encoding of `grpc-message`: printable ASCII, where `%` and two digits stand for all other
    /// bytes.
    public static func messageForGRPC(_ reason: String) -> String {
        reason.utf8.reduce(into: "") { text, byte in
            if (0x20...0x7e).contains(byte), byte != UInt8(ascii: "%") {
                text.unicodeScalars.append(Unicode.Scalar(byte))
            } else {
                text += "%" + Hexadecimal.encode(byte, digits: 2).uppercased()
            }
        }
    }
}

/// The reason why an answer is no decision. The decision point has then failed, which is not a denial.
public enum DecisionFault: Error, Equatable, Sendable {
    /// Another status than 200.
    case status(UInt16)
    /// Another media type than `application/json`, or none.
    case contentType
    /// The content is not an object in JSON within the limits.
    case malformed(JSONFault)
    /// The member with the decision is missing.
    case decisionMissing
    /// The decision is not a Boolean.
    case decisionType
    /// The result of OPA is neither a Boolean nor an object, or its parts are not objects.
    case resultType
    /// The metadata is that of another decision point, or its endpoint is not on the same origin.
    case metadata

    /// A description for the log.
    public var reason: String {
        switch self {
        case .status(let status): "status \(status)"
        case .contentType: "the content is not application/json"
        case .malformed(let fault): "\(fault.reason)"
        case .decisionMissing: "the decision is missing"
        case .decisionType: "the decision is not a Boolean"
        case .resultType: "the result is neither a Boolean nor an object"
        case .metadata: "the metadata is of another decision point"
        }
    }
}
