/// What is still to be written, and when that is tried again.
struct WitnessBacklog {
    private(set) var entries: [WitnessEntry] = []
    /// Whether there are more entries than are kept here: the whole journal is then rewritten.
    private(set) var isTooLong = false
    /// Ticks until the next attempt, and between that and the one after.
    private var pause = 0
    private var nextPause = 1

    private static let limit = 1_024
    /// At two ticks a second: half a minute.
    private static let longestPause = 60

    var isEmpty: Bool { entries.isEmpty && !isTooLong }

    mutating func add(_ more: [WitnessEntry]) {
        guard !isTooLong else { return }
        entries += more
        guard entries.count > Self.limit else { return }
        entries = []
        isTooLong = true
    }

    mutating func isDue() -> Bool {
        pause -= 1
        return pause <= 0
    }

    mutating func failed() {
        pause = nextPause
        nextPause = min(2 * nextPause, Self.longestPause)
    }

    mutating func written() {
        self = WitnessBacklog()
    }
}
