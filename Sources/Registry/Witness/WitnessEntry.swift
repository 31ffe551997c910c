internal import Vocabulary

/// What the revocation journal says in a line. Keys, not the store's numbers: those do not survive an import. Times are seconds since
/// 1970-01-01T00:00:00Z.
enum WitnessEntry: Equatable, Sendable {
    /// The device of a hardware key was revoked.
    case revoked(KeyID, at: Int64)
    /// It was made good again.
    case restored(KeyID, at: Int64)
    /// The binding of an mTLS key has ended, or will: the time may lie ahead.
    case ended(KeyID, at: Int64)
    /// Devices of a person, by their pseudonym, are let in no more.
    case barred(Fingerprint, at: Int64)
}

extension WitnessEntry {
    /// What the journal should say of a device.
    static func all(of details: DeviceDetails, at time: Int64) -> [WitnessEntry] {
        let key = details.device.identity.hardwareKey
        return [details.device.revokedAt.map { .revoked(key, at: $0) } ?? .restored(key, at: time)]
            + details.bindings.compactMap { binding in
                (binding.endedAt ?? binding.endsAt).map { .ended(binding.key, at: $0) }
            }
    }

    /// What an operation may have to be witnessed by, from its reply; the journal knows what of it is new.
    static func all(of command: RegistryCommand, _ reply: RegistryReply, at time: Int64) -> [WitnessEntry] {
        switch (command, reply) {
        case (.register, .device(let details)), (.revoke, .device(let details)), (.restore, .device(let details)),
            (.endBinding, .device(let details)):
            all(of: details, at: time)
        case (.bindKey, .keyBinding(.bound(let details, _))): all(of: details, at: time)
        case (.revokeSubject(let subject), .revoked(let devices)):
            [.barred(subject, at: time)] + devices.flatMap { all(of: $0, at: time) }
        default: []
        }
    }
}

/// The whole content of a journal: all its lines applied in order.
struct Revocations: Equatable, Sendable {
    private(set) var revoked: [KeyID: Int64] = [:]
    private(set) var ended: [KeyID: Int64] = [:]
    private(set) var barred: [Fingerprint: Int64] = [:]

    /// Whether a line of it would say more than is said already.
    func isNews(_ entry: WitnessEntry) -> Bool {
        switch entry {
        case .revoked(let key, _): revoked[key] == nil
        case .restored(let key, _): revoked[key] != nil
        // An end that is set earlier than before is news.
        case .ended(let key, let time): ended[key].map { time < $0 } ?? true
        case .barred(let subject, _): barred[subject] == nil
        }
    }

    mutating func apply(_ entry: WitnessEntry) {
        guard isNews(entry) else { return }
        switch entry {
        case .revoked(let key, let time): revoked[key] = time
        case .restored(let key, _): revoked[key] = nil
        case .ended(let key, let time): ended[key] = time
        case .barred(let subject, let time): barred[subject] = time
        }
    }

    /// Whether something of this is not said there, or is to end later there.
    func saysMore(than said: Revocations) -> Bool { entries.contains(where: said.isNews) }

    var count: Int { revoked.count + ended.count + barred.count }

    /// The fewest lines that say the same.
    var entries: some Sequence<WitnessEntry> {
        let revoked = revoked.lazy.map { WitnessEntry.revoked($0.key, at: $0.value) }
        let ended = ended.lazy.map { WitnessEntry.ended($0.key, at: $0.value) }
        let barred = barred.lazy.map { WitnessEntry.barred($0.key, at: $0.value) }
        return [AnySequence(revoked), AnySequence(ended), AnySequence(barred)].joined()
    }
}
