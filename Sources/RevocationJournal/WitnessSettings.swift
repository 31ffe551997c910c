internal import EventLoop
internal import Glibc
package import Registry

/// The location of a store's witness, and its permissions.
public struct WitnessSettings: Sendable {
    /// The path of the revocation journal. The commit mark is beside it.
    public var path: String
    /// Whether a lost journal may be created again without its entries.
    public var acceptsLoss: Bool
    /// Whether a lost store may be created again without devices.
    public var acceptsLostStore: Bool
    /// Whether another process may still keep the journal for the same store until it ends.
    public var mayShare: Bool
    /// Receives notices, on the thread that uses the store.
    public var notice: @Sendable (WitnessNotice) -> Void
    /// Returns the current time, in seconds since 1970-01-01T00:00:00Z.
    package var clock: @Sendable () -> Int64 = { WallClock.seconds }
    package let health = JournalHealth()

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

    /// Returns whether there was a store before. Both files are created after the tables of the first store are
    /// durable, so either is evidence.
    package func knowsStore() throws(StoreOpenError) -> Bool {
        try StoreFile.requireOrdinary(path, markPath)
        do throws(WitnessFault) {
            if try MarkFile(markPath).mark != nil { return true }
        } catch {
            throw .revocations(path: path, detail: error.detail)
        }
        return StoreFile.identity(of: path) != nil
    }
}

/// A notice of the witness for logs.
public enum WitnessNotice: Equatable, Sendable {
    /// The store went back or has moved. The entries of the journal were repeated.
    case wentBack(reason: String, isEpochFresh: Bool)
    /// The journal was missing. It was created from the store, and a new epoch started.
    case lossAccepted(path: String)
    /// The store was missing. One without devices was created.
    case storeMade(String)
    /// The journal is not the marked one, or is an earlier copy. Missing entries were taken from the store.
    case journalExchanged(path: String)
    /// The clock was set back by at least this number of seconds.
    case clockBehind(seconds: Int64)
    /// The clocks of the database and of this machine differ by this number of seconds.
    case clocksApart(seconds: Int64)
    /// No admission token is accepted for this number of seconds, more than the lifetime of a token.
    case tokensRefused(seconds: Int64)
    /// Revocations are in force but not in the journal yet.
    case cannotWrite(String)
    case writesAgain
}

extension WitnessNotice {
    /// The difference between clocks above which a notice is made, in seconds.
    package static let clockTolerance: Int64 = 30

    /// Creates a notice about clocks. Returns nil if they agree within the tolerance.
    package init?(clock: Int64, database: Int64) {
        let seconds = abs(clock - database)
        guard seconds > Self.clockTolerance else { return nil }
        self = .clocksApart(seconds: seconds)
    }

    /// Creates a notice about refused tokens. Returns nil if the time is not longer than the lifetime of a token.
    package init?(tokensRefusedUntil end: Int64, at time: Int64) {
        guard end - time > SingleUse.longestTokenLife + Self.clockTolerance else { return nil }
        self = .tokensRefused(seconds: end - time)
    }
}

extension WitnessNotice: CustomStringConvertible {
    /// The text for logs.
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

/// A failed system call.
struct WitnessFault: Error {
    let detail: String

    /// Creates a fault with the reason from `errno`.
    ///
    /// - Parameter doing: The failed action, for messages.
    static func last(_ doing: String) -> WitnessFault {
        WitnessFault(detail: "cannot \(doing): \(String(cString: strerror(errno)))")
    }

    init(detail: String) {
        self.detail = detail
    }
}
