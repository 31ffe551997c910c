internal import Policy
internal import Registry

/// What a route tells its service of a device beyond its pseudonym: `Attest-Subject` and `Attest-Posture`, as lines.
///
/// Made once for each posture of a device, and kept with the client.
struct DeviceStatement {
    /// What the lines depend on.
    struct Key: Equatable {
        let device: DeviceID
        /// The number of the device's posture.
        let generation: UInt32
        let route: Int
    }

    let key: Key
    /// Fields with their line ends.
    let lines: [UInt8]

    /// Creates the lines.
    ///
    /// - Parameter person: The pseudonym of the person at this service. Nil if none is known, or it is not wanted.
    init(_ key: Key, _ fields: IdentityFields, person: String?, _ posture: Posture) {
        self.key = key
        var text = ""
        if let person { text += "Attest-Subject: \(person)\r\n" }
        if fields.contains(.posture) { text += "Attest-Posture: \(PostureField.value(of: posture))\r\n" }
        lines = Array(text.utf8)
    }
}

/// The value of `Attest-Posture`: a dictionary (RFC 8941 section 3.2) of the known facts, by their names.
///
/// Names of a closed list are tokens, versions and dates are strings, times are integers in seconds since 1970.
enum PostureField {
    static func value(of posture: Posture) -> String {
        posture.facts.compactMap(member).joined(separator: ", ")
    }

    private static func member(_ fact: PostureFact) -> String? {
        let name = fact.name.rawValue
        switch fact.value {
        case .text(let text): return item(text, isToken: fact.name.isNameOfList).map { "\(name)=\($0)" }
        case .number(let number), .time(let number):
            return integers.contains(number) ? "\(name)=\(number)" : nil
        // True is the value of a key that stands alone (section 4.1.2).
        case .flag(let flag): return flag ? name : "\(name)=?0"
        case .texts(let texts):
            return "\(name)=(\(texts.compactMap { item($0, isToken: true) }.joined(separator: " ")))"
        }
    }

    /// The range of integers (section 3.3.1).
    private static let integers: ClosedRange<Int64> = -999_999_999_999_999...999_999_999_999_999

    /// Returns a token or a string. Nil for text that neither can have.
    private static func item(_ text: String, isToken: Bool) -> String? {
        if isToken { return isWord(text) ? text : nil }
        guard text.utf8.allSatisfy({ (0x20...0x7e).contains($0) }) else { return nil }
        var string = "\""
        for character in text.unicodeScalars {
            if character == "\"" || character == "\\" { string += "\\" }
            string.unicodeScalars.append(character)
        }
        return string + "\""
    }

    /// Returns whether the text is a token (section 3.3.4) of letters, digits, `-` and `_`.
    private static func isWord(_ text: String) -> Bool {
        guard let first = text.utf8.first, isLetter(first) else { return false }
        return text.utf8.allSatisfy { isLetter($0) || (0x30...0x39).contains($0) || $0 == 0x2d || $0 == 0x5f }
    }

    private static func isLetter(_ byte: UInt8) -> Bool { (0x61...0x7a).contains(byte | 0x20) }
}

extension PostureFactName {
    /// Whether the values are names of a closed list.
    fileprivate var isNameOfList: Bool {
        switch self {
        case .platform, .environment, .keyProtection, .boot, .admission, .playIntegrity: true
        // An unknown category of distribution is a number.
        case .osVersion, .patchLevel, .vendorPatchLevel, .bootPatchLevel, .appVersion, .distribution,
            .certificateKeyAttested, .bootloaderLocked, .risk, .playIntegrityAt, .enrolledAt, .attestedAt, .boundAt,
            .claimedSystem, .claimedDeviceSecure:
            false
        }
    }
}
