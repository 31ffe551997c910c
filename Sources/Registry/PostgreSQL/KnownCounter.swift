internal import Vocabulary

/// What the database said of a device when this gateway last looked or wrote: what a value is decided against before the
/// database decides whether all of it is still so. Of devices that may come; others are looked at each time.
struct KnownCounter {
    var window: CounterWindow
    var shown: ShownExtensions
    /// Of the device's row: whatever else is here holds for as long as the row has this number.
    let standing: Int64
    /// Keys whose binding is active, the latest last; not all of them.
    var active: [KeyID]

    private static let activeLimit = 8

    /// - Parameter key: of an active binding.
    mutating func add(_ key: KeyID) {
        guard !active.contains(key) else { return }
        if active.count == Self.activeLimit { active.removeFirst() }
        active.append(key)
    }

    enum Decision: Equatable {
        /// The value is spent here, and to be written.
        case planned
        case refused(CounterOutcome)
        /// Nothing is known of the binding.
        case unknown
    }

    /// Refuses only what stays refused, whatever others do meanwhile.
    mutating func decide(_ entry: CounterEntry) -> Decision {
        guard active.contains(entry.binding) else { return .unknown }
        guard entry.shown.isSuperset(of: shown) else { return .refused(.extensionWithheld) }
        switch window.accept(entry.counter, mode: entry.mode) {
        case .replayed: return .refused(.replayed)
        case .late: return .refused(.late(highest: window.highest))
        case .accepted:
            shown.formUnion(entry.shown)
            return .planned
        }
    }
}
