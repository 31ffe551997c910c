import Testing

@testable import GatewayConfiguration

@Suite("The schema for editors")
struct SchemaTests {
    private static func members(_ value: SchemaValue?) throws -> [String: SchemaValue] {
        guard case .object(let members)? = value else { throw NotAnObject() }
        return members
    }

    private struct NotAnObject: Error {}

    @Test("every section has exactly its settings, and requires those without a default")
    func sections() throws {
        let root = try Self.members(ConfigurationSchema.schema())
        let definitions = try Self.members(root["$defs"])
        #expect(Set(definitions.keys) == Set(Configuration.sections.map(\.path)).subtracting([""]))
        for section in Configuration.sections {
            let object = try section.path.isEmpty ? root : Self.members(definitions[section.path])
            #expect(object["additionalProperties"] == .flag(false))
            #expect(try Set(Self.members(object["properties"]).keys) == Set(section.names))
            let required = section.settings.filter { $0.absence == .refused }.map { SchemaValue.text($0.name) }
            let place = try section.path.isEmpty ? Self.members(root["then"]) : object
            #expect(place["required"] == (required.isEmpty ? nil : .list(required)), "\(section.path)")
        }
    }

    @Test("a setting has its summary, its default in JSON and its bounds")
    func settings() throws {
        let root = try Self.members(ConfigurationSchema.schema())
        let limits = try Self.members(Self.members(Self.members(root["$defs"])["limits"])["properties"])
        let connections = try Self.members(limits["connections"])
        #expect(connections["default"] == .integer(10_000))
        #expect(connections["minimum"] == .integer(1) && connections["maximum"] == .integer(1_000_000))
        #expect(try Self.members(limits["head"])["default"] == "16KiB")
        let properties = try Self.members(root["properties"])
        #expect(try Self.members(properties["workers"])["default"] == "auto")
        #expect(try Self.members(properties["strip_headers"])["default"] == .list([]))
        #expect(try Self.members(properties["log"])["default"] == .object([:]))
        guard case .text(let description)? = connections["description"] else { throw NotAnObject() }
        #expect(
            description.hasPrefix("The maximum number of open client connections.\nExpected: a whole number from 1 to ")
        )
    }

    @Test("the schema for included files requires no setting")
    func part() throws {
        let part = try Self.members(ConfigurationSchema.schema(ofPart: true))
        #expect(part["required"] == nil && part["then"] == nil)
    }

    @Test("no secret stands in the conf file: such settings name a file or a variable")
    func secrets() {
        let words = ["secret", "password", "passphrase", "token", "private", "credential"]
        for section in Configuration.sections {
            for setting in section.settings where words.contains(where: setting.name.contains) {
                let isSection = !setting.shape.sections.isEmpty
                let isPlace = setting.type.contains("file") || setting.type.contains("environment variable")
                // A choice holds no secret.
                let isDemand = setting.type == "one of: required, optional"
                #expect(isSection || isPlace || isDemand, "\(section.path).\(setting.name): \(setting.type)")
            }
            // Keys of certificates and services are PEM files, in lists too; kinds of keys are names.
            for setting in section.settings where ["key", "keys"].contains(setting.name) {
                let isFile = setting.type.contains("PEM file") || setting.type.contains("one of: p256")
                #expect(isFile, "\(section.path).\(setting.name): \(setting.type)")
            }
        }
    }
}
