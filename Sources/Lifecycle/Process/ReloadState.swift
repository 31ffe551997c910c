internal import EventLoop

/// A change of configuration that is asked for or under way, and how the last one ended.
struct ReloadState {
    enum Outcome: Equatable, Sendable {
        case done(generation: Int)
        /// Nothing has changed.
        case failed(String)
    }

    /// Who is told how it ended.
    var waiting: [(Outcome) -> Void] = []
    /// Asked for while another was under way, which may have read the file before it was written.
    var waitingForNext: [(Outcome) -> Void] = []
    var isUnderWay = false
    /// Reads the files. Joined before the process ends: it must not be in the middle of OpenSSL when that is taken down.
    var loader: LoopThread?
    /// Told to the workers, and not yet served by all of them.
    var change: (GenerationChange, GenerationOrder)?
    /// The last one, and when it ended, in seconds since 1970; nil if there was none.
    private(set) var last: (outcome: Outcome, at: Int64)?
    /// How many have ended either way.
    private(set) var succeeded = 0
    private(set) var failed = 0

    /// - Returns: false if it has ended already, which a stop and a loader that has just finished may both say: a reload has
    ///   one outcome.
    mutating func ended(_ outcome: Outcome, at time: Int64) -> Bool {
        guard isUnderWay else { return false }
        change = nil
        isUnderWay = false
        last = (outcome, time)
        switch outcome {
        case .done: succeeded += 1
        case .failed: failed += 1
        }
        return true
    }
}
