internal import EventLoop

/// A change of configuration that is asked for or under way, and how the last one ended.
struct ReloadState {
    enum Outcome: Equatable, Sendable {
        case done(generation: Int)
        /// Nothing has changed.
        case failed(String)
    }

    /// Called with the outcome.
    var waiting: [(Outcome) -> Void] = []
    /// Asked for while another was under way, which may have read the file before it was written.
    var waitingForNext: [(Outcome) -> Void] = []
    var isUnderWay = false
    /// Reads the files. Joined before the process ends: it must not be in the middle of OpenSSL when that is taken down.
    var loader: LoopThread?
    /// Doubtful settings in the last configuration read, for the client that asked for the reload.
    var warnings: [String] = []
    /// Sent to the workers, and not yet served by all of them.
    var change: (GenerationChange, GenerationOrder)?
    /// The last one, and when it ended, in seconds since 1970; nil if there was none.
    private(set) var last: (outcome: Outcome, at: Int64)?
    /// How many have ended either way.
    private(set) var succeeded = 0
    private(set) var failed = 0

    private static let briefLimit = 500

    /// The first line of why one failed, for the status: nothing of what stands in files, and of where they lie no more than their
    /// names. All of it is for who has asked for the reload, and for standard error. Also of what others say, a database or a
    /// service: at most `briefLimit` characters, and none that a terminal obeys.
    static func brief(_ reason: String) -> String {
        let line = reason.prefix { !$0.isNewline }.prefix(briefLimit).map { character in
            character.unicodeScalars.contains { $0.properties.generalCategory == .control } ? "?" : character
        }
        var brief = ""
        var word = ""
        func end() {
            // What names no place of its own, as 10.0.0.0/8 or https://login.example/, stays.
            let isPath = word.hasPrefix("/") || word.hasPrefix("./") || word.hasPrefix("../") || word.contains("/../")
            brief += isPath ? word.split(separator: "/").last.map(String.init) ?? word : word
            word = ""
        }
        var isQuoted = false
        for character in line {
            if character == "`" { isQuoted.toggle() }
            // Between backticks a blank is part of the path.
            if character == "`" || !isQuoted && (character == " " || character == ":" && !word.hasPrefix("http")) {
                end()
                brief.append(character)
            } else {
                word.append(character)
            }
        }
        end()
        return brief
    }

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
