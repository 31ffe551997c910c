internal import EventLoop
internal import Glibc
internal import Synchronization

/// Where the witness of a store lies, and what it may do.
public struct WitnessSettings: Sendable {
    /// The revocation journal; the commit mark lies beside it.
    public var path: String
    /// Whether a lost journal may be made again, and its contents be forgotten.
    public var acceptsLoss: Bool
    /// Whether a lost store may be made again, without devices.
    public var acceptsLostStore: Bool
    /// Whether another process may still keep the journal for the same store: it does so until it ends.
    public var mayShare: Bool
    /// Called on whichever thread has the store.
    public var notice: @Sendable (WitnessNotice) -> Void
    /// Seconds since 1970-01-01T00:00:00Z.
    var clock: @Sendable () -> Int64 = { WallClock.seconds }
    let health = WitnessHealth()

    public init(
        path: String, acceptsLoss: Bool = false, acceptsLostStore: Bool = false, mayShare: Bool = false,
        notice: @escaping @Sendable (WitnessNotice) -> Void = { _ in }
    ) {
        self.path = path
        self.acceptsLoss = acceptsLoss
        self.acceptsLostStore = acceptsLostStore
        self.mayShare = mayShare
        self.notice = notice
    }

    var markPath: String { path + ".mark" }

    /// Whether there was a store before. Both files are made after the tables of the first one are durable, so either tells.
    func knowsStore() throws(StoreOpenError) -> Bool {
        try StoreFile.requireOrdinary(path, markPath)
        do throws(WitnessFault) {
            if try MarkFile(markPath).mark != nil { return true }
        } catch {
            throw .revocations(path: path, detail: error.detail)
        }
        return StoreFile.identity(of: path) != nil
    }
}

/// What the witness has to say, for logs.
public enum WitnessNotice: Equatable, Sendable {
    /// The store has gone back, or has moved; what the journal says was done to it.
    case wentBack(reason: String, isEpochFresh: Bool)
    /// There was no journal; one was created from the store, and a new epoch started.
    case lossAccepted(path: String)
    /// There was no store any more; one without devices was made.
    case storeMade(String)
    /// The journal is not the one that the mark knows, or an earlier copy; what it lacks was taken from the store.
    case journalExchanged(path: String)
    /// The clock was set back, by so many seconds at least.
    case clockBehind(seconds: Int64)
    /// The clock of the database and ours are so many seconds apart.
    case clocksApart(seconds: Int64)
    /// No admission token passes for so many seconds, more than any token lives.
    case tokensRefused(seconds: Int64)
    /// Revocations stand, and are not in the journal yet.
    case cannotWrite(String)
    case writesAgain
}

extension WitnessNotice {
    /// How far clocks may differ before a notice reports it, in seconds.
    static let clockTolerance: Int64 = 30

    /// Nil where the clocks agree, as far as matters.
    init?(clock: Int64, database: Int64) {
        let seconds = abs(clock - database)
        guard seconds > Self.clockTolerance else { return nil }
        self = .clocksApart(seconds: seconds)
    }

    /// Nil where it is not longer than tokens live.
    init?(tokensRefusedUntil end: Int64, at time: Int64) {
        guard end - time > SingleUse.longestTokenLife + Self.clockTolerance else { return nil }
        self = .tokensRefused(seconds: end - time)
    }
}

extension WitnessNotice: CustomStringConvertible {
    /// For people.
    public var description: String {
        switch self {
        case .wentBack(let reason, let isEpochFresh):
            "\(reason): repeated all revocations and ends of bindings from the revocation journal"
                + (isEpochFresh ? ", and started a new epoch: all earlier challenges are refused" : "")
        case .lossAccepted(let path):
            "there was no revocation journal \(path): revocations that the store does not know are LOST, as accepted; a new one "
                + "was created from the store, and a new epoch started"
        case .storeMade(let store):
            "\(store): the registry was missing: created a new one WITHOUT DEVICES, as accepted: every phone must enrol again"
        case .journalExchanged(let path):
            "\(path) is not the previous revocation journal, or is an earlier copy of it: the missing entries were written "
                + "again from the store"
        case .clockBehind(let seconds):
            "the clock is \(seconds) seconds before the last use of the registry: set the clock, because certificates and tokens "
                + "that have expired are accepted until then; ended bindings stay ended"
        case .clocksApart(let seconds):
            "the clocks of this machine and of the database are \(seconds) seconds apart: set them"
        case .tokensRefused(let seconds):
            "admission tokens are refused for \(seconds) seconds: the clock was ahead when one expired, or is behind now. If it is "
                + "right, `attestgate registry renew-epoch` shortens that to an hour"
        case .cannotWrite(let reason):
            "the revocation journal cannot be written: \(reason): revocations are in force, but would be missing in a registry "
                + "restored from a copy"
        case .writesAgain: "the revocation journal is complete again"
        }
    }
}

/// Whether the journal holds everything, for other threads.
final class WitnessHealth: Sendable {
    private let complete = Atomic<Bool>(true)
    private let drawn = Atomic<Bool>(false)

    var isComplete: Bool {
        get { complete.load(ordering: .relaxed) }
        set { complete.store(newValue, ordering: .relaxed) }
    }

    /// Whether a fresh epoch was drawn when the store was opened.
    var hasDrawnEpoch: Bool {
        get { drawn.load(ordering: .relaxed) }
        set { drawn.store(newValue, ordering: .relaxed) }
    }
}

/// A call of the system that failed.
struct WitnessFault: Error {
    let detail: String

    /// - Parameter doing: what was tried, for people. Takes the reason from `errno`.
    static func last(_ doing: String) -> WitnessFault {
        WitnessFault(detail: "cannot \(doing): \(String(cString: strerror(errno)))")
    }

    init(detail: String) {
        self.detail = detail
    }
}
