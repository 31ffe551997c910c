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
        case ("found", 15):
            guard let token, let device = Self.device(words.dropFirst(2)) else { return nil }
            self = .found(token, device)
        case ("failed", 2):
            guard let token else { return nil }
            self = .failed(token)
        case ("opened", 1): self = .opened
        case ("confirmed", 1): self = .confirmed
        case ("device", 6...):
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
            "\(device.id.number)", identity.app.description, identity.platform.rawValue, identity.environment.rawValue,
            text(identity.hardwareKey), Hexadecimal.encode(identity.point.bytes), text(device.isRevoked),
            text(device.isBound), "\(device.shown.rawValue)", device.riskMetric.map { "\($0)" } ?? none,
            device.systemVersion?.description ?? none, text(device.isKeyListed),
        ]
        return (words + [end]).joined(separator: " ")
    }

    private static func device(_ words: ArraySlice<Substring>) -> FoundDevice? {
        let words = words.map(String.init)
        guard words.count == 13, words[12] == end, let id = Int64(words[0]).flatMap(DeviceID.init),
            let app = AppID(words[1]), let platform = Platform(rawValue: words[2]),
            let environment = AttestationEnvironment(rawValue: words[3]), let hardwareKey = key(words[4]),
            let point = Hexadecimal.decode(words[5]).flatMap(PublicPoint.init), let isRevoked = flag(words[6]),
            let isBound = flag(words[7]), let shown = UInt8(words[8]),
            let isKeyListed = flag(words[11])
        else { return nil }
        var device = FoundDevice(
            id: id,
            identity: DeviceIdentity(
                app: app, platform: platform, environment: environment, hardwareKey: hardwareKey, point: point),
            isRevoked: isRevoked, isBound: isBound, window: CounterWindow(), shown: ShownExtensions(rawValue: shown),
            isKeyListed: isKeyListed)
        if words[9] != none {
            guard let risk = UInt32(words[9]) else { return nil }
            device.riskMetric = risk
        }
        if words[10] != none {
            guard let version = SystemVersion(words[10]) else { return nil }
            device.systemVersion = version
        }
        return device
    }

    private static func text(_ update: DeviceUpdate) -> String {
        let words = [
            "\(update.id.number)", text(update.isRevoked), "\(update.shown.rawValue)",
            update.riskMetric.map { "\($0)" } ?? none, text(update.isKeyListed),
        ]
        return (words + update.bindings.map { text($0.key) + text($0.isActive) }).joined(separator: " ")
    }

    private static func update(_ words: ArraySlice<Substring>) -> DeviceUpdate? {
        let words = words.map(String.init)
        guard let id = Int64(words[0]).flatMap(DeviceID.init), let isRevoked = flag(words[1]),
            let shown = UInt8(words[2]), words[3] == none || UInt32(words[3]) != nil, let isKeyListed = flag(words[4])
        else { return nil }
        var bindings: [(key: KeyID, isActive: Bool)] = []
        for word in words.dropFirst(5) {
            guard let key = key(word.dropLast()), let isActive = flag(String(word.suffix(1))) else { return nil }
            bindings.append((key, isActive))
        }
        return DeviceUpdate(
            id: id, isRevoked: isRevoked, shown: ShownExtensions(rawValue: shown), riskMetric: UInt32(words[3]),
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
