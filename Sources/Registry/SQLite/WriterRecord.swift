internal import Vocabulary

/// What the writer knows of a device: the record every verdict falls against.
struct WriterRecord {
    var isRevoked: Bool
    var window: CounterWindow
    /// Always what the device's row says, or is about to: unlike the window it is written in the transaction that adds to
    /// it, for that happens at most twice to a device.
    var shown: ShownExtensions
    /// Of the newest receipt, as its row says.
    var riskMetric: UInt32?
    /// Journal rows of this device that are not folded. With any the record must stay: the device's row is behind it.
    var unfolded = 0
    /// Whether the window has changed since it was written to the device's row.
    var isAhead = false

    /// Adds what an assertion shows. - Returns: whether that is news, and to be written.
    mutating func add(_ shown: ShownExtensions) -> Bool {
        defer { self.shown.formUnion(shown) }
        return !self.shown.isSuperset(of: shown)
    }

    /// Spends a value that is then to be written to the journal.
    ///
    /// - Parameter becomesAhead: set if the record was not ahead of the device's row before.
    mutating func spend(_ value: UInt32, mode: CounterMode, becomesAhead: inout Bool) -> CounterVerdict {
        let verdict = window.accept(value, mode: mode)
        if verdict == .accepted {
            unfolded += 1
            becomesAhead = !isAhead
            isAhead = true
        }
        return verdict
    }
}

/// What the writer knows of an mTLS key.
struct WriterBinding {
    let device: DeviceID
    var isActive: Bool
}
