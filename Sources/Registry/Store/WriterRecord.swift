/// What the writer knows of a device: the record every verdict falls against.
struct WriterRecord {
    var isRevoked: Bool
    var window: CounterWindow
    /// Journal rows of this device that are not folded. With any the record must stay: the device's row is behind it.
    var unfolded = 0
    /// Whether the window has changed since it was written to the device's row.
    var isAhead = false
}

/// What the writer knows of an mTLS key.
struct WriterBinding {
    let device: DeviceID
    var isActive: Bool
}
