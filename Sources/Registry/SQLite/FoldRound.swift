/// One pass over the devices with journal rows: first their rows are written, in the order of their ids, then the journal
/// rows are deleted that were there when it began.
///
/// In this order because many neighbours then share a page: writing in the journal's order costs a page for each row, ten
/// times as much. A crash in between leaves rows that are ahead of a journal which is read again, and says the same.
struct FoldRound {
    /// The newest journal row it covers.
    let through: Int64
    private let devices: [DeviceID]
    private var next = 0

    /// Counter rows that fit into a page of 4 KiB.
    static let rowsPerPage: Int64 = 28

    /// - Parameter ahead: the devices whose records are ahead of their rows, each once.
    init(through: Int64, ahead: [DeviceID]) {
        self.through = through
        devices = ahead.sorted()
    }

    var hasDevices: Bool { next < devices.count }

    mutating func takeDevice() -> DeviceID? {
        guard next < devices.count else { return nil }
        next += 1
        return devices[next - 1]
    }
}
