internal import Encoding
internal import HTTP

/// A service's RSD2 document: its protocols and where they are.
package struct ServiceDescription: Equatable {
    /// The longest document in bytes.
    package static let lengthLimit = 64 << 10
    /// The maximum of protocols.
    package static let protocolLimit = 64

    /// The ids of the protocols that the service speaks.
    package let protocols: Set<String>
    /// The document as fetched.
    package let text: [UInt8]

    /// Parses and checks a document.
    ///
    /// - Parameter origin: The origin of the service. No link leads elsewhere.
    package init(_ text: [UInt8], origin: String) throws(Fault) {
        let object: JSONObject
        do throws(JSONFault) {
            object = try JSONReader.object(in: text, longest: Self.lengthLimit, most: Self.protocolLimit)
        } catch {
            throw Fault(reason: "\(error.reason)")
        }
        guard object["engineName"]?.text?.isEmpty == false else { throw Fault(reason: "engineName is missing") }
        guard Self.staysAtHome(object, origin: origin) else {
            throw Fault(reason: "a link leaves the service's server")
        }
        guard let engine = Self.url(object["engineLink"]), engine.origin == origin else {
            throw Fault(reason: "engineLink is no https URL of the service's own server")
        }
        for name in ["homePageLink", "homePageIcon"] {
            guard let value = object[name] else { continue }
            guard Self.isLink(value, below: origin) else { throw Fault(reason: "\(name) leaves the service's server") }
        }
        guard let apis = object["apis"]?.object else { throw Fault(reason: "apis is missing") }
        var protocols: Set<String> = []
        for api in apis.members {
            guard let id = String(validating: api.name, as: UTF8.self), (1...256).contains(api.name.count),
                let members = api.value.object
            else { throw Fault(reason: "an entry of apis is malformed") }
            guard let link = members["apiLink"], Self.isLink(link, below: origin) else {
                throw Fault(reason: "an apiLink is missing or leaves the service's server")
            }
            protocols.insert(id)
        }
        self.protocols = protocols
        self.text = text
    }

    /// Returns whether no text in an object is a URL of another server, whatever its name.
    private static func staysAtHome(_ object: JSONObject, origin: String) -> Bool {
        object.members.allSatisfy { staysAtHome($0.value, origin: origin) }
    }

    private static func staysAtHome(_ value: JSONValue, origin: String) -> Bool {
        switch value {
        case .object(let object): staysAtHome(object, origin: origin)
        case .array(let elements): elements.allSatisfy { staysAtHome($0, origin: origin) }
        case .text: url(value).map { $0.origin == origin } ?? true
        default: true
        }
    }

    private static func url(_ value: JSONValue?) -> SecureURL? {
        value?.text.flatMap { String(validating: $0, as: UTF8.self) }.flatMap { SecureURL($0) }
    }

    /// Returns whether a link stays on the service's server: an https URL there, or a path below engineLink (RFC 3986
    /// section 4.2) without `..`, a scheme, or an authority of its own.
    private static func isLink(_ value: JSONValue, below origin: String) -> Bool {
        guard let text = value.text.flatMap({ String(validating: $0, as: UTF8.self) }) else { return false }
        if let url = SecureURL(text) { return url.origin == origin }
        let excluded = Set("#\"<>\\^`{|}".utf8)
        guard text.utf8.count <= 1024, !text.hasPrefix("//"),
            text.utf8.allSatisfy({ (0x21...0x7e).contains($0) && !excluded.contains($0) })
        else { return false }
        let path = text.prefix { $0 != "?" }
        let first = path.split(separator: "/", omittingEmptySubsequences: false).first ?? ""
        let lowercase = path.lowercased()
        return !first.contains(":") && !lowercase.contains("%2e") && !lowercase.contains("%2f")
            && !path.split(separator: "/").contains("..")
    }

    package struct Fault: Error, Equatable {
        package let reason: String
    }
}
