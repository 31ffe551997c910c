internal import Encoding
internal import Vocabulary

/// A message between a process that has released its registry to another one, and that process. A datagram each.
enum RegistryWord {
    /// Find the device of an mTLS key. Answered with the same token.
    case find(UInt64, KeyID)
    case found(UInt64, FoundDevice?)
    /// The store could not answer.
    case failed(UInt64)
    /// The process that answers has opened the registry: what was in memory before may have changed meanwhile.
    case opened
    /// The state of devices in memory was still correct when this was sent.
    case confirmed
    case device(DeviceUpdate)
    case barred([KeyID])
    case ended([KeyID])

    /// The maximum length of a message, in bytes. A device has more bindings only after decades.
    static let longest = 1 << 16

    var text: String {
        switch self {
        case .find(let token, let key): "find \(token) \(Self.text(key))"
        case .found(let token, nil): "none \(token)"
        case .found(let token, let device?): "found \(token) \(Self.text(device))"
        case .failed(let token): "failed \(token)"
        case .opened: "opened"
        case .confirmed: "confirmed"
        case .device(let update): "device \(Self.text(update))"
        case .barred(let keys): Self.text("barred", keys)
        case .ended(let keys): Self.text("ended", keys)
        }
    }

    /// Parses a message.
    ///
    /// - Returns: Nil for any other text.
    init?(_ text: String) {
        let words = text.split(separator: " ", omittingEmptySubsequences: false)
        let token = words.count > 1 ? UInt64(words[1]) : nil
        switch (words[0], words.count) {
        case ("find", 3):
            guard let token, let key = Self.key(words[2]) else { return nil }
            self = .find(token, key)
        case ("none", 2):
            guard let token else { return nil }
            self = .found(token, nil)
        case ("found", 11 + Self.postureWords):
            guard let token, let device = Self.device(words.dropFirst(2)) else { return nil }
            self = .found(token, device)
        case ("failed", 2):
            guard let token else { return nil }
            self = .failed(token)
        case ("opened", 1): self = .opened
        case ("confirmed", 1): self = .confirmed
        case ("device", (5 + Self.postureWords)...):
            guard let update = Self.update(words.dropFirst()) else { return nil }
            self = .device(update)
        case ("barred", 2...), ("ended", 2...):
            let keys = words.dropFirst().compactMap(Self.key)
            guard keys.count == words.count - 1 else { return nil }
            self = words[0] == "barred" ? .barred(keys) : .ended(keys)
        default: return nil
        }
    }

    // MARK: - Parts

    private static func text(_ key: KeyID) -> String { Hexadecimal.encode(key.bytes) }

    private static func text(_ name: String, _ keys: [KeyID]) -> String {
        ([name] + keys.map(text)).joined(separator: " ")
    }

    private static func key(_ text: some StringProtocol) -> KeyID? {
        Hexadecimal.decode(String(text)).flatMap { KeyID(digest: $0.span) }
    }

    /// Spent counter values are left out: only the process that has the registry spends any.
    private static func text(_ device: FoundDevice) -> String {
        let identity = device.identity
        let words = [
            "\(device.id.number)", identity.app.description, text(identity.hardwareKey),
            Hexadecimal.encode(identity.point.bytes), text(device.isRevoked), text(device.isBound),
            "\(device.shown.rawValue)", text(device.isKeyListed),
        ]
        return (words + Self.words(device.posture) + [end]).joined(separator: " ")
    }

    private static func device(_ words: ArraySlice<Substring>) -> FoundDevice? {
        let words = words.map(String.init)
        guard words.count == 9 + postureWords, words[8 + postureWords] == end,
            let id = Int64(words[0]).flatMap(DeviceID.init),
            let app = AppID(words[1]), let hardwareKey = key(words[2]),
            let point = Hexadecimal.decode(words[3]).flatMap(PublicPoint.init), let isRevoked = flag(words[4]),
            let isBound = flag(words[5]), let shown = UInt8(words[6]), let isKeyListed = flag(words[7]),
            let posture = posture(words[8..<8 + postureWords])
        else { return nil }
        return FoundDevice(
            id: id,
            identity: DeviceIdentity(
                app: app, platform: posture.platform, environment: posture.environment, hardwareKey: hardwareKey,
                point: point),
            isRevoked: isRevoked, isBound: isBound, window: CounterWindow(), shown: ShownExtensions(rawValue: shown),
            posture: posture, isKeyListed: isKeyListed)
    }

    /// The number of words of a posture.
    private static let postureWords = 20

    /// Returns the words of a posture.
    private static func words(_ posture: Posture) -> [String] {
        let words: [String?] = [
            posture.platform.rawValue, posture.environment.rawValue, posture.system?.description,
            posture.app?.description, posture.distribution.map { "\($0)" }, posture.keyProtection?.rawValue,
            posture.isCertificateKeyAttested.map(text), posture.boot?.rawValue, posture.isBootloaderLocked.map(text),
            posture.patchLevel.map { "\($0)" }, posture.vendorPatchLevel.map { "\($0)" },
            posture.bootPatchLevel.map { "\($0)" }, posture.risk.map { "\($0)" },
            posture.integrity.map { "\($0.rawValue)" }, posture.integrityAt.map { "\($0)" }, "\(posture.enrolledAt)",
            posture.attestedAt.map { "\($0)" }, posture.boundAt.map { "\($0)" }, posture.admission.rawValue,
            posture.subject.map { Hexadecimal.encode($0.bytes) },
        ]
        return words.map { $0 ?? none }
    }

    /// Parses the words of a posture.
    private static func posture(_ words: ArraySlice<String>) -> Posture? {
        guard let platform = Platform(rawValue: words[words.startIndex]) else { return nil }
        var next = words.startIndex
        var isRead = true
        func value<Value>(_ read: (String) -> Value?) -> Value? {
            let word = words[next]
            next += 1
            guard word != none else { return nil }
            let value = read(word)
            if value == nil { isRead = false }
            return value
        }
        _ = value(Platform.init(rawValue:))
        let environment = value(AttestationEnvironment.init(rawValue:))
        var posture = Posture(platform: platform, environment: environment ?? .production, enrolledAt: 0)
        posture.system = value { SystemVersion($0) }
        posture.app = value { AppVersion($0, on: platform) }
        posture.distribution = value { UInt8($0) }
        posture.keyProtection = value(KeyProtection.init(rawValue:))
        posture.isCertificateKeyAttested = value(flag)
        posture.boot = value(AttestedPhone.BootState.init(rawValue:))
        posture.isBootloaderLocked = value(flag)
        posture.patchLevel = value { UInt32($0) }
        posture.vendorPatchLevel = value { UInt32($0) }
        posture.bootPatchLevel = value { UInt32($0) }
        posture.risk = value { UInt32($0) }
        posture.integrity = value { UInt8($0).map(IntegrityLevels.init(rawValue:)) }
        posture.integrityAt = value { Int64($0) }
        let enrolledAt = value { Int64($0) }
        posture.attestedAt = value { Int64($0) }
        posture.boundAt = value { Int64($0) }
        guard isRead, environment != nil, let enrolledAt, let admission = value(AdmissionKind.init(rawValue:)) else {
            return nil
        }
        posture.enrolledAt = enrolledAt
        posture.admission = admission
        posture.subject = value { Hexadecimal.decode($0).flatMap(Fingerprint.init) }
        guard isRead else { return nil }
        return posture
    }

    private static func text(_ update: DeviceUpdate) -> String {
        let words =
            ["\(update.id.number)", text(update.isRevoked), "\(update.shown.rawValue)", text(update.isKeyListed)]
            + Self.words(update.posture)
        return (words + update.bindings.map { text($0.key) + text($0.isActive) }).joined(separator: " ")
    }

    private static func update(_ words: ArraySlice<Substring>) -> DeviceUpdate? {
        let words = words.map(String.init)
        guard let id = Int64(words[0]).flatMap(DeviceID.init), let isRevoked = flag(words[1]),
            let shown = UInt8(words[2]), let isKeyListed = flag(words[3]),
            let posture = posture(words[4..<4 + postureWords])
        else { return nil }
        var bindings: [(key: KeyID, isActive: Bool)] = []
        for word in words.dropFirst(4 + postureWords) {
            guard let key = key(word.dropLast()), let isActive = flag(String(word.suffix(1))) else { return nil }
            bindings.append((key, isActive))
        }
        return DeviceUpdate(
            id: id, isRevoked: isRevoked, shown: ShownExtensions(rawValue: shown), posture: posture,
            isKeyListed: isKeyListed, bindings: bindings)
    }

    private static let none = "-"
    /// Shows that nothing was cut off.
    private static let end = "."

    private static func text(_ flag: Bool) -> String { flag ? "1" : "0" }

    private static func flag(_ text: String) -> Bool? {
        switch text {
        case "0": false
        case "1": true
        default: nil
        }
    }
}
