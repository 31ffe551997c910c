/// How a store is opened. Only the record limit is an operator's business, and what for is a command's; the rest exists for tests and
/// measurements.
package struct StoreOptions {
    /// What survives a power cut.
    package enum Durability: Int {
        /// Nothing is promised. Measures what durability costs.
        case off = 0
        /// Commits may be lost, so values could be accepted again. Shows that tests notice.
        case normal = 1
        /// Every commit. What `PRAGMA synchronous` must read back.
        case full = 2
    }

    package var durability = Durability.full
    /// Counter records kept in memory; about 250 bytes each. Those with unfolded journal rows come on top.
    package var recordLimit = 65_536
    /// Counter rows that one slice of folding writes at most; time and pages bound it before.
    package var foldLimit = 4_096
    /// Pages of the log from which on it grows ahead of commits; one that stays short costs nobody anything.
    package var pagesBeforeLogRoom = 64
    /// Octets that the log grows by then.
    package var logRoomSlice = 1_048_576
    /// SQLite refuses to grow the file beyond: stands in for a full disk.
    package var maximumPages: Int?

    /// Whether an export is to be taken over: a store that is made now is for nobody else until that has ended well.
    package var isLoading = false

    package init() {}
}
