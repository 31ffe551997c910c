internal import Encoding
public import Registry
internal import Vocabulary

/// Why a text is no posture.
public struct PostureFault: Error, Equatable, Sendable {
    public let reason: String
}

extension Posture {
    /// The maximum size of a text, in bytes.
    public static let textLimit = 64 << 10

    /// Parses a posture as `attestgate device show --json` prints it: the whole, or its member `posture`. Facts that are
    /// missing are not known.
    public init(parsing text: [UInt8]) throws(PostureFault) {
        let object: JSONObject
        do throws(JSONFault) { object = try JSONReader.object(in: text, longest: Self.textLimit) } catch {
            throw PostureFault(reason: "\(error.reason)")
        }
        var reader = FactReader(object["posture"]?.object ?? object)
        guard let platform = try reader.choice(.platform, Platform.self) else {
            throw PostureFault(reason: "`platform` is missing")
        }
        self.init(
            platform: platform,
            environment: try reader.choice(.environment, AttestationEnvironment.self) ?? .production,
            enrolledAt: try reader.time(.enrolledAt) ?? 0,
            admission: try reader.choice(.admission, AdmissionKind.self) ?? .operator)
        system = try reader.parsed(.osVersion) { SystemVersion($0) }
        app = try reader.parsed(.appVersion) { AppVersion($0, on: platform) }
        distribution = try reader.parsed(.distribution) { text in
            (UInt8.min...UInt8.max).first { Self.name(ofDistribution: $0) == text }
        }
        keyProtection = try reader.choice(.keyProtection, KeyProtection.self)
        isCertificateKeyAttested = try reader.flag(.certificateKeyAttested)
        boot = try reader.choice(.boot, AttestedPhone.BootState.self)
        isBootloaderLocked = try reader.flag(.bootloaderLocked)
        patchLevel = try reader.parsed(.patchLevel) { Self.level($0) }
        vendorPatchLevel = try reader.parsed(.vendorPatchLevel) { Self.level($0) }
        bootPatchLevel = try reader.parsed(.bootPatchLevel) { Self.level($0) }
        risk = try reader.number(.risk)
        integrity = try reader.texts(.playIntegrity).map { IntegrityLevels(verdicts: $0) }
        integrityAt = try reader.time(.playIntegrityAt)
        attestedAt = try reader.time(.attestedAt)
        boundAt = try reader.time(.boundAt)
        claims.system = try reader.parsed(.claimedSystem) { SystemVersion($0) }
        claims.isDeviceSecure = try reader.flag(.claimedDeviceSecure)
        try reader.finish()
    }

    /// Returns the number of `2026-01` or `2026-01-05`.
    private static func level(_ text: String) -> UInt32? {
        let parts = text.split(separator: "-", omittingEmptySubsequences: false)
        guard [[4, 2], [4, 2, 2]].contains(parts.map(\.utf8.count)), let month = UInt32(parts[1]),
            (1...12).contains(month), parts.allSatisfy({ $0.utf8.allSatisfy { (0x30...0x39).contains($0) } })
        else { return nil }
        return UInt32(parts.joined())
    }
}

/// Reads facts by name, and notes which are known.
private struct FactReader {
    private let object: JSONObject
    private var known: Set<String> = []

    init(_ object: JSONObject) { self.object = object }

    private mutating func value(_ name: PostureFactName) -> JSONValue? {
        known.insert(name.rawValue)
        return object[name.rawValue].flatMap { $0 == .null ? nil : $0 }
    }

    private func fault(_ name: PostureFactName, _ expected: String) -> PostureFault {
        PostureFault(reason: "`\(name.rawValue)` is not \(expected)")
    }

    mutating func parsed<Value>(
        _ name: PostureFactName, _ parse: (String) -> Value?
    ) throws(PostureFault) -> Value? {
        guard let value = value(name) else { return nil }
        guard let text = value.text, let parsed = parse(String(decoding: text, as: UTF8.self)) else {
            throw fault(name, "as `attestgate device show --json` prints it")
        }
        return parsed
    }

    mutating func choice<Value: RawRepresentable & CaseIterable>(
        _ name: PostureFactName, _ type: Value.Type
    ) throws(PostureFault) -> Value? where Value.RawValue == String {
        guard let value = value(name) else { return nil }
        guard let text = value.text, let known = Value(rawValue: String(decoding: text, as: UTF8.self)) else {
            throw fault(name, "one of: \(Value.allCases.map(\.rawValue).joined(separator: ", "))")
        }
        return known
    }

    mutating func flag(_ name: PostureFactName) throws(PostureFault) -> Bool? {
        guard let value = value(name) else { return nil }
        guard case .boolean(let flag) = value else { throw fault(name, "true or false") }
        return flag
    }

    mutating func number(_ name: PostureFactName) throws(PostureFault) -> UInt32? {
        guard let value = value(name) else { return nil }
        guard let number = value.integer.flatMap({ UInt32(exactly: $0) }) else { throw fault(name, "a number") }
        return number
    }

    mutating func texts(_ name: PostureFactName) throws(PostureFault) -> [String]? {
        guard let value = value(name) else { return nil }
        guard case .array(let elements) = value, elements.allSatisfy({ $0.text != nil }) else {
            throw fault(name, "a list of texts")
        }
        return elements.compactMap(\.text).map { String(decoding: $0, as: UTF8.self) }
    }

    mutating func time(_ name: PostureFactName) throws(PostureFault) -> Int64? {
        try parsed(name) { InternetTime($0)?.seconds }
    }

    /// Refuses members that are no facts: a misspelt one would count as not known.
    func finish() throws(PostureFault) {
        for member in object.members {
            let name = String(decoding: member.name, as: UTF8.self)
            guard known.contains(name) || PostureFactName(rawValue: name) != nil else {
                throw PostureFault(reason: "\(JSONWriter.quoted(name)) is no fact of a posture")
            }
        }
    }
}
