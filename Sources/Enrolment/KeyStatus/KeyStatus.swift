internal import Attestation
internal import Upstream

/// The answer to whether Google has revoked attestation keys, for the phones of one environment.
enum KeyStatus: Equatable {
    /// No list is compared.
    case notDemanded
    case current(AttestationStatusList)
    /// There is no list yet. No Android phone can be attested.
    case missing
    /// The list was not confirmed for too long. No Android phone can be attested.
    case stale

    /// The number of seconds after which a phone may try again if the list is missing or stale.
    static let retryAfter = 60
}

/// The last status list with its age, and who demands it. It is a value whose caller passes the time.
struct KeyStatusRecord: Equatable {
    /// The last list that was accepted.
    struct Kept: Equatable {
        var list: AttestationStatusList
        /// The time at which the source last said that this is its list, in seconds since 1970.
        var confirmedAt: Int64
        /// What a conditional request names. Empty for a file.
        var validators = ContentValidators()
        /// The text of the list, to be kept on disk. Empty for a file.
        var text: [UInt8] = []
    }

    /// The environments of apps whose phones are compared with the list.
    var environments: Set<AndroidApp.Environment> = []
    /// The maximum age of the list in seconds.
    var staleAfter: Int64 = 0
    /// The URL or the path of the list. Nil if nothing demands one.
    var source: String?
    /// Nil until there is a list.
    var kept: Kept?

    /// Returns the list for an app's phones, or the reason why there is none.
    ///
    /// - Parameter now: The time in seconds since 1970.
    func status(for environment: AndroidApp.Environment, at now: Int64) -> KeyStatus {
        guard environments.contains(environment) else { return .notDemanded }
        guard let kept else { return .missing }
        return isStale(at: now) ? .stale : .current(kept.list)
    }

    /// Returns whether the list is too old. False if there is none.
    ///
    /// A list from the future counts for the same time: the clock may have been set back, but not every time is true.
    func isStale(at now: Int64) -> Bool { kept.map { abs(now - $0.confirmedAt) > staleAfter } ?? false }

    /// Returns the number of seconds since the list was confirmed. Nil if there is none.
    func age(at now: Int64) -> Int64? {
        kept.map { max(0, now - $0.confirmedAt) }
    }
}
