/// How many devices there are in each state, of those that were looked through.
public struct DeviceCount: Equatable, Sendable {
    public var active: Int
    public var pending: Int
    public var revoked: Int
    /// The last one that was looked at; nil if there are no more.
    public var next: DeviceID?

    public init(active: Int = 0, pending: Int = 0, revoked: Int = 0, next: DeviceID? = nil) {
        self.active = active
        self.pending = pending
        self.revoked = revoked
        self.next = next
    }

    /// - Parameters: as the stores count them.
    init(all: Int, revoked: Int, pending: Int, last: DeviceID?, limit: Int) {
        self.init(active: all - revoked - pending, pending: pending, revoked: revoked, next: all < limit ? nil : last)
    }

    /// What the stores count with, in the dialect that all of them speak.
    static let columns = """
        count(*), coalesce(sum(CASE WHEN revoked_at IS NOT NULL THEN 1 ELSE 0 END), 0), \
        coalesce(sum(CASE WHEN revoked_at IS NULL AND activated_at IS NULL THEN 1 ELSE 0 END), 0), max(id)
        """
}
