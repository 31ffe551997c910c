internal import Encoding
internal import Foundation

/// JSON encoding and decoding.
public enum JSONText {
    /// Encodes a value. Members are sorted by name, so that equal values have equal texts.
    public static func encode(_ value: some Encodable) -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        guard let data = try? encoder.encode(value) else {
            preconditionFailure("documents contain only text and integers")
        }
        return Array(data)
    }

    static func decode<Value: Decodable>(_ type: Value.Type, from text: [UInt8]) throws -> Value {
        try JSONDecoder().decode(type, from: Data(text))
    }

    /// Parses an object of unique text members.
    ///
    /// - Parameter admitted: The permitted names. Others are refused, because they would have no effect.
    static func members(of text: [UInt8], admitted: [String]) throws(AdministrationFault) -> [String: String] {
        let object: JSONObject
        do throws(JSONFault) { object = try JSONReader.object(in: text, longest: text.count) } catch {
            throw error == .duplicateName ? .badRequest("A member occurs twice.") : notText
        }
        var members: [String: String] = [:]
        for member in object.members {
            guard let value = member.value.text else { throw notText }
            members[String(decoding: member.name, as: UTF8.self)] = String(decoding: value, as: UTF8.self)
        }
        if let unknown = members.keys.sorted().first(where: { !admitted.contains($0) }) {
            let known = admitted.joined(separator: ", ")
            throw .badRequest("The member '\(unknown.prefix(40))' is unknown; known members are \(known).")
        }
        return members
    }

    private static let notText = AdministrationFault.badRequest(
        "The content must be a JSON object whose members are text.")
}
