package import Encoding
public import Vocabulary

/// What an app says of its phone, without evidence, by the names of gematik's reference system (`deviceAttributes`).
public struct Signals: Equatable, Sendable {
    /// The members, nested in at most `depthLimit` objects. Values are printable texts, whole numbers, Booleans and lists
    /// of such texts.
    fileprivate let object: JSONObject
    /// The object in JSON without spaces. At most `sizeLimit`.
    package let content: [UInt8]
    /// The time at which the app said it, in seconds since 1970-01-01T00:00:00Z.
    public let claimedAt: Int64

    /// In bytes.
    public static let sizeLimit = 4 << 10
    static let depthLimit = 3
    /// The maximum length of a name in bytes.
    static let nameLimit = 64

    /// Creates signals.
    ///
    /// - Returns: nil if the object has another form, or is too large.
    package init?(_ object: JSONObject, claimedAt: Int64) {
        guard Self.isAdmitted(object, depth: 1) else { return nil }
        let content = JSONWriter.object { $0.members(of: object) }
        guard content.count <= Self.sizeLimit else { return nil }
        self.object = object
        self.content = content
        self.claimedAt = claimedAt
    }

    /// Reads stored signals.
    ///
    /// - Returns: nil for other bytes than `content` of some signals.
    package init?(content: [UInt8], claimedAt: Int64) {
        guard let object = try? JSONReader.object(in: content, longest: Self.sizeLimit),
            let signals = Self(object, claimedAt: claimedAt), signals.content == content
        else { return nil }
        self = signals
    }

    private static func isAdmitted(_ object: JSONObject, depth: Int) -> Bool {
        depth <= depthLimit
            && object.members.allSatisfy { member in
                guard isName(member.name) else { return false }
                switch member.value {
                case .integer, .boolean: return true
                case .text: return isPrintable(member.value)
                case .array(let elements): return elements.allSatisfy(isPrintable)
                case .object(let object): return isAdmitted(object, depth: depth + 1)
                case .number, .null: return false
                }
            }
    }

    /// Text that does nothing to an operator's terminal, nor hides how it reads.
    private static func isPrintable(_ value: JSONValue) -> Bool {
        guard let text = value.string else { return false }
        return text.unicodeScalars.allSatisfy { scalar in
            switch scalar.properties.generalCategory {
            case .control, .format, .lineSeparator, .paragraphSeparator, .privateUse, .unassigned: false
            default: true
            }
        }
    }

    /// A letter, and then letters, digits and underscores.
    private static func isName(_ name: [UInt8]) -> Bool {
        func isLetter(_ byte: UInt8) -> Bool { (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte | 0x20) }
        guard let first = name.first, isLetter(first), name.count <= nameLimit else { return false }
        return name.allSatisfy { isLetter($0) || (0x30...0x39).contains($0) || $0 == UInt8(ascii: "_") }
    }

    /// The values, each by the names that lead to it with full stops between them.
    public var values: [(name: String, value: PostureValue)] { Self.values(of: object, prefix: "") }

    private static func values(of object: JSONObject, prefix: String) -> [(name: String, value: PostureValue)] {
        object.members.flatMap { member -> [(name: String, value: PostureValue)] in
            let name = prefix + String(decoding: member.name, as: UTF8.self)
            func value(_ value: PostureValue) -> [(name: String, value: PostureValue)] { [(name, value)] }
            return switch member.value {
            case .text(let text): value(.text(String(decoding: text, as: UTF8.self)))
            case .integer(let number): value(.number(number))
            case .boolean(let flag): value(.flag(flag))
            case .array(let elements): value(.texts(elements.compactMap(\.string)))
            case .object(let object): values(of: object, prefix: "\(name).")
            case .number, .null: []
            }
        }
    }

    /// What policies may use of it.
    public var claims: Claims {
        let system = object["systemVersion"]?.string?.split(separator: " ").last
        let keyguard = object["keyguardManager"]?.object ?? object
        return Claims(
            system: system.flatMap { SystemVersion(String($0)) },
            isDeviceSecure: (object["isDeviceSecure"] ?? keyguard["isDeviceSecure"])?.boolean)
    }
}

/// What an app says of its phone, as far as policies may use it. Nil if it says nothing.
public struct Claims: Equatable, Sendable {
    /// Of `systemVersion`, which may begin with the name of the system.
    public var system: SystemVersion?
    /// Whether the phone has a screen lock: `isDeviceSecure`, or that of `keyguardManager`.
    public var isDeviceSecure: Bool?

    public init(system: SystemVersion? = nil, isDeviceSecure: Bool? = nil) {
        self.system = system
        self.isDeviceSecure = isDeviceSecure
    }
}

extension JSONWriter {
    /// Writes the members of signals.
    ///
    /// - Parameter name: That of a member that is left out.
    package mutating func members(of signals: Signals, except name: String? = nil) {
        members(of: signals.object, except: name)
    }

    fileprivate mutating func members(of object: JSONObject, except omitted: String? = nil) {
        for member in object.members {
            let name = String(decoding: member.name, as: UTF8.self)
            guard name != omitted else { continue }
            switch member.value {
            case .text, .null: self.member(name, member.value.string)
            case .integer(let number): self.member(name, number)
            case .boolean(let flag): self.member(name, flag)
            case .array(let elements): self.member(name, elements.compactMap(\.string))
            case .object(let object): self.object(name, keepsEmpty: true) { $0.members(of: object) }
            // Signals have none.
            case .number: break
            }
        }
    }
}

extension JSONValue {
    fileprivate var string: String? { text.map { String(decoding: $0, as: UTF8.self) } }
}
